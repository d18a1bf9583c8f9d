#include "engine/base/testing/faults.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace recurve {

void Faults::FailAt(int64_t n, int error, Extent extent) {
  Arm(n, error, extent, nullptr);
}

void Faults::CallAt(int64_t n, std::function<void()> call) {
  Arm(n, 0, kOnce, std::move(call));
}

bool Faults::Disarm() {
  absl::MutexLock lock(&mutex_);
  n_ = 0;
  return !where_.empty();
}

void Faults::Arm(int64_t n, int error, Extent extent,
                 std::function<void()> call) {
  absl::MutexLock lock(&mutex_);
  n_ = n;
  error_ = error;
  extent_ = extent;
  call_ = std::move(call);
  count_ = 0;
  where_.clear();
}

int64_t Faults::count() const {
  absl::MutexLock lock(&mutex_);
  return count_;
}

std::string Faults::where() const {
  absl::MutexLock lock(&mutex_);
  return where_;
}

int Faults::Next(absl::string_view operation, absl::string_view subject) {
  std::function<void()> call;
  {
    absl::MutexLock lock(&mutex_);
    ++count_;
    if (count_ == n_) {
      where_ = absl::StrCat(count_, ": ", operation, " ", subject);
      call = std::exchange(call_, nullptr);
    } else if (n_ == 0 || count_ < n_ || extent_ == kOnce) {
      return 0;
    }
    if (!call) return error_;
  }
  call();
  return 0;
}

}  // namespace recurve
