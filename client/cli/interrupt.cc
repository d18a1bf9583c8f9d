#include "client/cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

namespace recurve::cli {
namespace {

std::string& Text() {
  static auto* text = new std::string;
  return *text;
}

// The handler reads no string that is being changed: it is set before and reset
// after.
void Write(int) {
  const std::string& text = Text();
  [[maybe_unused]] const ssize_t written =
      write(STDERR_FILENO, text.data(), text.size());
  raise(SIGINT);  // once the handler has returned: it was set for one signal
}

}  // namespace

InterruptNotice::InterruptNotice(const std::string& text) {
  Text() = text;
  struct sigaction action = {};
  action.sa_handler = Write;
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGINT, &action, nullptr);
}

InterruptNotice::~InterruptNotice() { signal(SIGINT, SIG_DFL); }

}  // namespace recurve::cli
