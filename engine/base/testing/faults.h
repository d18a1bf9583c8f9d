// Which of a test's disk operations go wrong, and how.
//
// A test runs its scenario with each of its operations failing in turn, until
// none does:
//
//   for (int64_t n = 1;; ++n) {
//     faults.FailAt(n, EIO);
//     ... the scenario ...
//     if (!faults.Disarm()) break;
//     ... what must hold after such a fault, with faults.where() in messages
//   }
#ifndef RECURVE_ENGINE_BASE_TESTING_FAULTS_H_
#define RECURVE_ENGINE_BASE_TESTING_FAULTS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace recurve {

// Counts operations from 1 on, from whatever asks Next: FaultFileCalls and
// FaultSqliteVfs may share one. Thread-safe.
class Faults {
 public:
  enum Extent {
    kOnce,      // a disk that failed a moment
    kFromThen,  // one that stays full, or broken
  };

  // Count from 1 again; operation `n` fails with the errno `error`, by
  // kFromThen those after it too.
  void FailAt(int64_t n, int error, Extent extent = kOnce);
  // Count from 1 again; `call` runs in the middle of operation `n`, which then
  // goes on. It may end the process: [] { _exit(9); }. Nothing fails.
  void CallAt(int64_t n, std::function<void()> call);
  // Ends the faults: true if operation `n` has come.
  bool Disarm();

  // Since the last FailAt or CallAt: operations, and what operation `n` was, as
  // "3: rename /a/b", empty if it has not come.
  int64_t count() const;
  std::string where() const;

  // For those who fail: counts an operation. The errno it shall fail with, or 0
  // (after having run what CallAt was given).
  int Next(absl::string_view operation, absl::string_view subject);

 private:
  void Arm(int64_t n, int error, Extent extent, std::function<void()> call);

  mutable absl::Mutex mutex_;
  int64_t n_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: none
  int error_ ABSL_GUARDED_BY(mutex_) = 0;
  Extent extent_ ABSL_GUARDED_BY(mutex_) = kOnce;
  std::function<void()> call_ ABSL_GUARDED_BY(mutex_);
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  std::string where_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_BASE_TESTING_FAULTS_H_
