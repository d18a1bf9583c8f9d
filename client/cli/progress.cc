#include "client/cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace recurve::cli {
namespace {

constexpr int kBarWidth = 24;

std::string Bar(double fraction) {
  const int done = static_cast<int>(std::lround(fraction * kBarWidth));
  return absl::StrCat("[", std::string(done, '#'),
                      std::string(kBarWidth - done, '.'), "]");
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

void ProgressPrinter::Print(const v1::JobEvent& event) {
  if (event.has_metrics() && columns_ > 0) {
    // A full last column makes some terminals go on to the next line.
    absl::FPrintF(out_, "\r\x1b[K%s",
                  ProgressLine(event.metrics()).substr(0, columns_ - 1));
    open_line_ = true;
  } else {
    EndLine();
    if (event.has_metrics()) {
      absl::FPrintF(out_, "%s\n", ProgressLine(event.metrics()));
    } else if (event.has_state()) {
      const v1::Job& job = event.state();
      absl::FPrintF(out_, "%s %s%s%s\n", job.name(),
                    v1::Job::State_Name(job.state()),
                    job.cause().empty() ? "" : ": ", job.cause());
    } else {
      absl::FPrintF(out_, "warning: %s\n", event.warning());
    }
  }
  std::fflush(out_);
}

}  // namespace recurve::cli
