#include "server/process.h"

#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "absl/synchronization/mutex.h"

namespace recurve::server {
namespace {

// Between two parallel loops libgomp's threads spin for milliseconds, which
// takes the cores from other devices: on two busy cores a small forward pass of
// a cpu:2 device took 26 ms, and 3 ms with a short spin. libgomp reads its
// settings when it is loaded, so they must be there when the program starts.
void SpinShortly(char** argv) {
  if (getenv("OMP_WAIT_POLICY") != nullptr ||
      getenv("GOMP_SPINCOUNT") != nullptr) {
    return;
  }
  setenv("GOMP_SPINCOUNT", "1000", 1);
  // Not by the link's own name: that, "exe", would be the process's.
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  execv(program.c_str(), argv);  // should it fail, we are only slower
}

}  // namespace

void PrepareProcess(char** argv) {
  SpinShortly(argv);
  // Debian builds Abseil with its search for deadlocks, at each lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

int64_t ReturnFreeMemory(int64_t min_free_bytes) {
  const auto free_bytes = static_cast<int64_t>(mallinfo2().fordblks);
  if (free_bytes >= min_free_bytes) malloc_trim(0);
  return free_bytes;
}

}  // namespace recurve::server
