#include "client/cli/progress.h"

#include <cstdio>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace recurve::cli {
namespace {

v1::JobMetrics Metrics(double fraction) {
  v1::JobMetrics metrics;
  metrics.set_step(120);
  metrics.set_loss(1.83212);
  metrics.set_rows_per_second(12345);
  metrics.set_seconds(28);
  metrics.set_fraction_done(fraction);
  return metrics;
}

std::string Printed(size_t columns, const std::vector<v1::JobEvent>& events) {
  std::FILE* file = std::tmpfile();
  ProgressPrinter printer(file, columns);
  for (const v1::JobEvent& event : events) printer.Print(event);
  std::string text(static_cast<size_t>(std::ftell(file)), '\0');
  std::rewind(file);
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

TEST(ProgressTest, ShowsLossRateAndTimeLeft) {
  EXPECT_EQ(ProgressLine(Metrics(0.4)),
            "[##########..............]  40%  step 120  loss 1.8321  "
            "12.3k rows/s  0:42 left");
}

TEST(ProgressTest, ClaimsNoTimeLeftBeforeTheFirstStep) {
  EXPECT_EQ(ProgressLine(Metrics(0)).find("left"), std::string::npos);
}

TEST(ProgressTest, AFractionBeyondItsRangeStaysInTheBar) {
  EXPECT_NE(ProgressLine(Metrics(7)).find("[########################] 100%"),
            std::string::npos);
}

TEST(ProgressTest, FormatsDurations) {
  EXPECT_EQ(FormatDuration(0), "0:00");
  EXPECT_EQ(FormatDuration(59.6), "1:00");
  EXPECT_EQ(FormatDuration(4000), "1:06:40");
  EXPECT_EQ(FormatDuration(-3), "0:00");
}

TEST(ProgressTest, ATerminalsLineIsRedrawnAndOthersAreNot) {
  v1::JobEvent metrics;
  *metrics.mutable_metrics() = Metrics(0.5);
  v1::JobEvent state;
  state.mutable_state()->set_name("jobs/a");
  state.mutable_state()->set_state(v1::Job::FAILED);
  state.mutable_state()->set_cause("why");
  const std::string terminal = Printed(100, {metrics, metrics, state});
  EXPECT_NE(terminal.find("\r"), std::string::npos);
  EXPECT_NE(terminal.find("left\njobs/a FAILED: why\n"), std::string::npos);
  const std::string plain = Printed(0, {metrics, state});
  EXPECT_EQ(plain.find("\r"), std::string::npos);
  EXPECT_NE(plain.find("left\njobs/a FAILED: why\n"), std::string::npos);
}

TEST(ProgressTest, CheckpointsEvaluationsAndWarningsAreLines) {
  v1::JobEvent metrics, checkpoint, evaluation, regression, warning;
  *metrics.mutable_metrics() = Metrics(0.5);
  checkpoint.mutable_checkpoint()->set_step(120);
  checkpoint.mutable_checkpoint()->set_size_bytes(1'234'567);
  checkpoint.mutable_checkpoint()->set_seconds(0.0521);
  evaluation.mutable_evaluation()->set_step(100);
  evaluation.mutable_evaluation()->set_loss(1.23456);
  evaluation.mutable_evaluation()->set_accuracy(0.5678);
  regression.mutable_evaluation()->set_loss(2);
  warning.set_warning("a checkpoint was damaged");
  const std::string lines =
      "checkpoint of step 120: 1.2 MB in 0.05 s\n"
      "validation at step 100: loss 1.2346, accuracy 56.8%\n"
      "validation at step 0: loss 2.0000\n"
      "warning: a checkpoint was damaged\n";
  const std::vector<v1::JobEvent> events = {checkpoint, evaluation, regression,
                                            warning};
  EXPECT_EQ(Printed(0, events), lines);
  EXPECT_EQ(Printed(80, events), lines);
  EXPECT_NE(Printed(80, {metrics, warning}).find("left\nwarning: a ch"),
            std::string::npos);
}

TEST(ProgressTest, AJobIsALine) {
  v1::Job job;
  job.set_name("jobs/a");
  job.set_state(v1::Job::QUEUED);
  job.mutable_spec()->set_model("models/lm");
  EXPECT_EQ(JobLine(job), "jobs/a  QUEUED  step 0  models/lm");
  job.set_state(v1::Job::PAUSED);
  job.set_step(120);
  job.set_max_steps(300);
  job.set_loss(1.83212);
  job.set_owner("me");
  job.set_priority(-3);
  job.set_cause("paused on request");
  EXPECT_EQ(JobLine(job),
            "jobs/a  PAUSED  step 120 of 300 (40%)  loss 1.8321  models/lm  "
            "owner me  priority -3  (paused on request)");
  job.set_held_out_loss(2);
  job.mutable_best()->set_loss(1.5);
  job.mutable_best()->set_step(100);
  job.set_model_version("models/lm/versions/1");
  EXPECT_EQ(JobLine(job),
            "jobs/a  PAUSED  step 120 of 300 (40%)  loss 1.8321  best "
            "validation loss 1.5000 at step 100  held-out loss 2.0000  "
            "models/lm/versions/1  owner me  priority -3  (paused on request)");
}

TEST(ProgressTest, StaysOnOneLineOfANarrowTerminal) {
  v1::JobEvent metrics;
  *metrics.mutable_metrics() = Metrics(0.5);
  EXPECT_EQ(Printed(12, {metrics}), "\r\x1b[K[##########");
}

}  // namespace
}  // namespace recurve::cli
