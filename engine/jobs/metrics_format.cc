#include "engine/jobs/metrics_format.h"

#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "engine/jobs/record_format.h"
#include "engine/jobs/tensorboard_event.pb.h"

namespace recurve {
namespace {

constexpr absl::string_view kColumns =
    "event,time,step,epoch,loss,gradient_norm,learning_rate,rows_per_second,"
    "seconds,fraction_done,validation_loss,validation_accuracy\n";

// Reads back as the same number.
std::string Exact(double value) { return absl::StrFormat("%.17g", value); }

std::string CsvLine(const JobEvent& event, int64_t step,
                    std::vector<std::string> cells) {
  const std::string time =
      absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", event.time, absl::UTCTimeZone());
  return absl::StrCat(event.number, ",", time, ",", step, ",",
                      absl::StrJoin(cells, ","), "\n");
}

double WallTime(absl::Time time) {
  return absl::ToDoubleSeconds(time - absl::UnixEpoch());
}

std::string Record(const tensorboard::Event& event) {
  return FramedRecord(event.SerializeAsString());
}

using Scalars = std::vector<std::pair<absl::string_view, double>>;

std::string ScalarsRecord(const JobEvent& event, int64_t step,
                          const Scalars& scalars) {
  tensorboard::Event record;
  record.set_wall_time(WallTime(event.time));
  record.set_step(step);
  for (const auto& [tag, number] : scalars) {
    auto* value = record.mutable_summary()->add_value();
    value->set_tag(std::string(tag));
    value->set_simple_value(static_cast<float>(number));
  }
  return Record(record);
}

std::string RestartRecord(const JobEvent& event, int64_t step) {
  tensorboard::Event record;
  record.set_wall_time(WallTime(event.time));
  record.set_step(step);
  record.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  return Record(record);
}

std::string MetricsLine(const JobEvent& event, const JobMetrics& metrics) {
  return CsvLine(event, metrics.step,
                 {absl::StrCat(metrics.epoch), Exact(metrics.loss),
                  Exact(metrics.gradient_norm), Exact(metrics.learning_rate),
                  Exact(metrics.rows_per_second), Exact(metrics.seconds),
                  Exact(metrics.fraction_done), "", ""});
}

std::string MetricsRecord(const JobEvent& event, const JobMetrics& metrics) {
  return ScalarsRecord(event, metrics.step,
                       {{"train/loss", metrics.loss},
                        {"train/gradient_norm", metrics.gradient_norm},
                        {"train/learning_rate", metrics.learning_rate},
                        {"train/rows_per_second", metrics.rows_per_second},
                        {"train/epoch", static_cast<double>(metrics.epoch)}});
}

std::string EvaluationLine(const JobEvent& event,
                           const JobEvaluation& evaluation) {
  return CsvLine(event, evaluation.step,
                 {"", "", "", "", "", "", "", Exact(evaluation.loss),
                  Exact(evaluation.accuracy)});
}

std::string EvaluationRecord(const JobEvent& event,
                             const JobEvaluation& evaluation) {
  return ScalarsRecord(event, evaluation.step,
                       {{"validation/loss", evaluation.loss},
                        {"validation/accuracy", evaluation.accuracy}});
}

}  // namespace

MetricsFormat::MetricsFormat(absl::Time create_time, MetricsText* text) {
  absl::StrAppend(&text->csv, kColumns);
  tensorboard::Event version;
  version.set_wall_time(WallTime(create_time));
  version.set_file_version("brain.Event:2");
  absl::StrAppend(&text->tensorboard, Record(version));
}

void MetricsFormat::Add(const JobEvent& event, MetricsText* text) {
  if (const auto* metrics = std::get_if<JobMetrics>(&event.what)) {
    NoteStep(event, metrics->step, &metrics_step_, text);
    absl::StrAppend(&text->csv, MetricsLine(event, *metrics));
    absl::StrAppend(&text->tensorboard, MetricsRecord(event, *metrics));
  } else if (const auto* evaluation = std::get_if<JobEvaluation>(&event.what)) {
    NoteStep(event, evaluation->step, &evaluation_step_, text);
    absl::StrAppend(&text->csv, EvaluationLine(event, *evaluation));
    absl::StrAppend(&text->tensorboard, EvaluationRecord(event, *evaluation));
  }
}

// Steps that come again do so after a roll back: readers of the event file
// drop what they have of them.
void MetricsFormat::NoteStep(const JobEvent& event, int64_t step, int64_t* last,
                             MetricsText* text) {
  if (step <= *last) {
    absl::StrAppend(&text->tensorboard, RestartRecord(event, step));
    metrics_step_ = evaluation_step_ = 0;
  }
  *last = step;
}

}  // namespace recurve
