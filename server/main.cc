// The Recurve server: recurve_server --help.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/config.pb.h"
#include "server/options.h"
#include "server/periodic_task.h"
#include "server/process.h"
#include "server/server.h"

namespace recurve::server {
namespace {

constexpr absl::Duration kMemoryPeriod = absl::Seconds(10);
constexpr int64_t kMinFreeBytes = 64 << 20;

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "recurve_server: %s\n",
               std::string(status.message()).c_str());
  return 1;
}

// Blocks the signals that end a server, for all threads to come.
sigset_t BlockEndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

int Serve(const Options& options, const sigset_t& end_signals) {
  auto server = Server::Start(options.config);
  if (!server.ok()) return Fail(server.status());
  if (const std::string metrics = (*server)->metrics_address();
      !metrics.empty()) {
    std::printf("metrics on %s\n", metrics.c_str());
  }
  std::printf("listening on %s\n", (*server)->address().c_str());
  std::fflush(stdout);

  const PeriodicTask memory(kMemoryPeriod,
                            [] { ReturnFreeMemory(kMinFreeBytes); });
  int signal = 0;
  sigwait(&end_signals, &signal);
  std::fprintf(stderr, "draining for up to %s; once more ends at once\n",
               absl::FormatDuration(options.drain_timeout).c_str());
  pthread_sigmask(SIG_UNBLOCK, &end_signals, nullptr);
  (*server)->Drain(options.drain_timeout);
  return 0;
}

int Main(std::vector<std::string> arguments) {
  for (const std::string& argument : arguments) {
    if (argument != "--help" && argument != "-h") continue;
    std::fputs(Help().c_str(), stdout);
    return 0;
  }
  const char* const working_directory = getenv("BUILD_WORKING_DIRECTORY");
  const auto options = ParseOptions(
      arguments, working_directory == nullptr ? "" : working_directory);
  if (!options.ok()) return Fail(options.status());
  return Serve(*options, BlockEndSignals());
}

}  // namespace
}  // namespace recurve::server

int main(int argc, char** argv) {
  recurve::server::PrepareProcess(argv);
  return recurve::server::Main({argv + 1, argv + argc});
}
