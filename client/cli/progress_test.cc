#include "client/cli/progress.h"

#include <cstdio>
#include <string>

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

TEST(ProgressTest, StaysOnOneLineOfANarrowTerminal) {
  v1::JobEvent metrics;
  *metrics.mutable_metrics() = Metrics(0.5);
  EXPECT_EQ(Printed(12, {metrics}), "\r\x1b[K[##########");
}

}  // namespace
}  // namespace recurve::cli
