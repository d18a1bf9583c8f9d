#include "client/cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace recurve::cli {
namespace {

constexpr int kBarWidth = 24;

std::string Bar(double fraction) {
  const int done = static_cast<int>(std::lround(fraction * kBarWidth));
  return absl::StrCat("[", std::string(done, '#'),
                      std::string(kBarWidth - done, '.'), "]");
}

std::string FormatBytes(int64_t bytes) {
  if (bytes < 1000) return absl::StrCat(bytes, " B");
  if (bytes < 1'000'000) return absl::StrFormat("%.1f kB", bytes / 1e3);
  return absl::StrFormat("%.1f MB", bytes / 1e6);
}

std::string StateLine(const v1::Job& job) {
  return absl::StrCat(job.name(), " ", v1::Job::State_Name(job.state()),
                      job.cause().empty() ? "" : ": ", job.cause());
}

std::string CheckpointLine(const v1::JobCheckpoint& checkpoint) {
  return absl::StrFormat(
      "checkpoint of step %d: %s in %.2f s", checkpoint.step(),
      FormatBytes(checkpoint.size_bytes()), checkpoint.seconds());
}

std::string EvaluationLine(const v1::JobEvaluation& evaluation) {
  std::string line = absl::StrFormat("validation at step %d: loss %.4f",
                                     evaluation.step(), evaluation.loss());
  if (evaluation.accuracy() != 0) {
    absl::StrAppendFormat(&line, ", accuracy %.1f%%",
                          100 * evaluation.accuracy());
  }
  return line;
}

std::string EventLine(const v1::JobEvent& event) {
  if (event.has_metrics()) return ProgressLine(event.metrics());
  if (event.has_state()) return StateLine(event.state());
  if (event.has_checkpoint()) return CheckpointLine(event.checkpoint());
  if (event.has_evaluation()) return EvaluationLine(event.evaluation());
  return absl::StrCat("warning: ", event.warning());
}

// `step 120 of 300 (40%)`
std::string Steps(const v1::Job& job) {
  if (job.max_steps() <= 0) return absl::StrCat("step ", job.step());
  return absl::StrFormat("step %d of %d (%.0f%%)", job.step(), job.max_steps(),
                         100.0 * job.step() / job.max_steps());
}

std::string FormatRate(double rows_per_second) {
  return rows_per_second >= 1000
             ? absl::StrFormat("%.1fk rows/s", rows_per_second / 1000)
             : absl::StrFormat("%.0f rows/s", rows_per_second);
}

}  // namespace

std::string FormatDuration(double seconds) {
  const int64_t whole = std::llround(std::clamp(seconds, 0.0, 1e9));
  const int64_t minutes = whole / 60;
  return minutes < 60 ? absl::StrFormat("%d:%02d", minutes, whole % 60)
                      : absl::StrFormat("%d:%02d:%02d", minutes / 60,
                                        minutes % 60, whole % 60);
}

std::string ProgressLine(const v1::JobMetrics& metrics) {
  const double fraction = std::clamp(metrics.fraction_done(), 0.0, 1.0);
  std::string line = absl::StrFormat(
      "%s %3.0f%%  step %d  loss %.4f  %s", Bar(fraction), 100 * fraction,
      metrics.step(), metrics.loss(), FormatRate(metrics.rows_per_second()));
  if (fraction > 0) {
    const double left = metrics.seconds() * (1 - fraction) / fraction;
    absl::StrAppend(&line, "  ", FormatDuration(left), " left");
  }
  return line;
}

std::string JobLine(const v1::Job& job) {
  std::vector<std::string> parts = {
      job.name(), v1::Job::State_Name(job.state()), Steps(job)};
  if (job.loss() != 0) {
    parts.push_back(absl::StrFormat("loss %.4f", job.loss()));
  }
  if (job.has_best()) {
    parts.push_back(absl::StrFormat("best validation loss %.4f at step %d",
                                    job.best().loss(), job.best().step()));
  }
  if (job.has_held_out_loss()) {
    parts.push_back(absl::StrFormat("held-out loss %.4f", job.held_out_loss()));
  }
  const bool published = !job.model_version().empty();
  parts.push_back(published ? job.model_version() : job.spec().model());
  if (!job.owner().empty()) parts.push_back("owner " + job.owner());
  if (job.priority() != 0) {
    parts.push_back(absl::StrCat("priority ", job.priority()));
  }
  if (!job.cause().empty()) parts.push_back("(" + job.cause() + ")");
  return absl::StrJoin(parts, "  ");
}

size_t TerminalColumns(std::FILE* out) {
  constexpr size_t kUsual = 80;  // where the terminal does not say
  if (isatty(fileno(out)) == 0) return 0;
  winsize size{};
  const bool known = ioctl(fileno(out), TIOCGWINSZ, &size) == 0;
  return known && size.ws_col > 0 ? size.ws_col : kUsual;
}

void ProgressPrinter::EndLine() {
  if (open_line_) absl::FPrintF(out_, "\n");
  open_line_ = false;
}

void ProgressPrinter::Redraw(const std::string& line) {
  // A full last column makes some terminals go on to the next line.
  absl::FPrintF(out_, "\r\x1b[K%s", line.substr(0, columns_ - 1));
  std::fflush(out_);
  open_line_ = true;
}

void ProgressPrinter::Note(const std::string& text) {
  EndLine();
  absl::FPrintF(out_, "%s\n", text);
  std::fflush(out_);
}

void ProgressPrinter::Print(const v1::JobEvent& event) {
  if (event.has_metrics() && columns_ > 0) {
    Redraw(ProgressLine(event.metrics()));
  } else {
    Note(EventLine(event));
  }
}

}  // namespace recurve::cli
