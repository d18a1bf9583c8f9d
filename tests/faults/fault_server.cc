// A recurve_server whose disk does not always work:
//
//   fault_server MODE N [flags of recurve_server]
//
// The N-th call that changes a file or that SQLite makes of the system
//   fail   fails with EIO, once
//   full   fails with ENOSPC, and so do all after it for 200 ms
//   crash  is the last thing that the process does: it ends half way through it
// With N 0 none of that happens. At its end it prints `N calls`.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/testing/fault_file_calls.h"
#include "engine/base/testing/fault_sqlite_vfs.h"
#include "engine/base/testing/faults.h"
#include "server/options.h"
#include "server/server.h"

namespace recurve::faults {
namespace {

constexpr absl::Duration kFullFor = absl::Milliseconds(200);

void Arm(Faults& faults, const std::string& mode, int64_t n) {
  if (n == 0) return;
  if (mode == "fail") faults.FailAt(n, EIO);
  if (mode == "full") faults.FailAt(n, ENOSPC, Faults::kFromThen);
  if (mode == "crash") faults.CallAt(n, [] { _exit(9); });
}

// Says which call it was, and gives a full disk room again.
void Recover(Faults& faults, std::atomic<bool>& ended) {
  while (faults.where().empty()) {
    if (ended) return;
    absl::SleepFor(absl::Milliseconds(5));
  }
  std::printf("%s\n", faults.where().c_str());
  std::fflush(stdout);
  absl::SleepFor(kFullFor);
  faults.Disarm();
}

// Its exit status, once SIGTERM has come.
int Serve(const std::vector<std::string>& flags) {
  const auto options = server::ParseOptions(flags, "");
  auto server =
      options.ok() ? server::Server::Start(options->config) : options.status();
  if (!server.ok()) {
    std::printf("%s\n", std::string(server.status().message()).c_str());
    return 1;
  }
  std::printf("listening on %s\n", (*server)->address().c_str());
  std::fflush(stdout);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  int signal = 0;
  sigwait(&signals, &signal);
  (*server)->Drain(options->drain_timeout);
  return 0;
}

int Main(const std::string& mode, int64_t n,
         const std::vector<std::string>& flags) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  Faults faults;
  FaultFileCalls file_calls(faults);
  FaultSqliteVfs sqlite_calls(faults);
  Arm(faults, mode, n);
  std::atomic<bool> ended{false};
  std::thread recover([&] { Recover(faults, ended); });
  const int status = Serve(flags);
  ended = true;
  recover.join();
  std::printf("%jd calls\n", static_cast<intmax_t>(faults.count()));
  return status;
}

}  // namespace
}  // namespace recurve::faults

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  return recurve::faults::Main(argv[1], std::atoll(argv[2]),
                               {argv + 3, argv + argc});
}
