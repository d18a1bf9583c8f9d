// A job's progress as people read it.
#ifndef RECURVE_CLIENT_CLI_PROGRESS_H_
#define RECURVE_CLIENT_CLI_PROGRESS_H_

#include <cstddef>
#include <cstdio>
#include <string>

#include "proto/recurve/v1/jobs.pb.h"

namespace recurve::cli {

// `[########............]  40%  step 120  loss 1.8321  12.3k rows/s  0:42 left`
std::string ProgressLine(const v1::JobMetrics& metrics);

// A job in a line: `jobs/a  PAUSED  step 120 of 300 (40%)  loss 1.8321
// models/lm  (paused on request)`.
std::string JobLine(const v1::Job& job);

// 42.0 -> "0:42", 4000 -> "1:06:40".
std::string FormatDuration(double seconds);

// Columns of the terminal that `out` is; 0 if it is none.
size_t TerminalColumns(std::FILE* out);

// Writes events to `out` (stderr, say): on a terminal one line that is drawn
// again and again, cut at its width so that it stays one line; elsewhere (0
// columns) a line an event.
class ProgressPrinter {
 public:
  ProgressPrinter(std::FILE* out, size_t columns)
      : out_(out), columns_(columns) {}

  void Print(const v1::JobEvent& event);
  // A line about the watching itself.
  void Note(const std::string& text);

 private:
  void EndLine();
  void Redraw(const std::string& line);

  std::FILE* const out_;
  const size_t columns_;
  bool open_line_ = false;
};

}  // namespace recurve::cli

#endif  // RECURVE_CLIENT_CLI_PROGRESS_H_
