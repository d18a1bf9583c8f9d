// A last word before Ctrl-C ends the program.
#ifndef RECURVE_CLIENT_CLI_INTERRUPT_H_
#define RECURVE_CLIENT_CLI_INTERRUPT_H_

#include <string>

namespace recurve::cli {

// While it lives, SIGINT writes `text` to stderr and then ends the program as
// it always does. One at a time.
class InterruptNotice {
 public:
  explicit InterruptNotice(const std::string& text);
  ~InterruptNotice();
  InterruptNotice(const InterruptNotice&) = delete;
  InterruptNotice& operator=(const InterruptNotice&) = delete;
};

}  // namespace recurve::cli

#endif  // RECURVE_CLIENT_CLI_INTERRUPT_H_
