// Linked into every program under --config=tsan. Debian's Abseil and gRPC are
// not built for ThreadSanitizer, which so misses the order that absl::Mutex
// imposes. The definitions here take the place of those in
// libabsl_synchronization, for libgrpc's locks too: each calls the original and
// tells ThreadSanitizer what it ordered.

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

extern "C" {

void __tsan_acquire(void* address);
void __tsan_release(void* address);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);

// What is not instrumented is not checked.
const char* __tsan_default_options() {
  return "ignore_noninstrumented_modules=1";
}

}  // extern "C"

namespace {

template <size_t kSize>
struct Symbol {
  constexpr Symbol(const char (&text)[kSize]) {
    std::copy_n(text, kSize, name);
  }
  char name[kSize];
};

// Calls the original of a function defined below by its mangled name.
template <Symbol kSymbol, typename Result, typename... Args>
Result Original(Args... args) {
  static const auto function =
      reinterpret_cast<Result (*)(Args...)>(dlsym(RTLD_NEXT, kSymbol.name));
  return function(args...);
}
#define RECURVE_ORIGINAL(member, Result) \
  Original<"_ZN4absl7debian3" member, Result>

// Abseil evaluates the condition of a waiting thread in whatever thread lets go
// of the lock, after that thread's release as it is told here: not a race.
class IgnoreReads {
 public:
  IgnoreReads() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~IgnoreReads() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
};

// At its end this thread comes after all that was released to `object`.
class AcquireAtEnd {
 public:
  explicit AcquireAtEnd(void* object) : object_(object) {}
  ~AcquireAtEnd() { __tsan_acquire(object_); }

 private:
  void* const object_;
  IgnoreReads ignore_;
};

// As AcquireAtEnd; and what this thread did comes before its acquirers.
class ReleaseThenAcquire {
 public:
  explicit ReleaseThenAcquire(void* object)
      : acquire_((__tsan_release(object), object)) {}

 private:
  AcquireAtEnd acquire_;
};

class ReleaseAtStart {
 public:
  explicit ReleaseAtStart(void* object) { __tsan_release(object); }

 private:
  IgnoreReads ignore_;
};

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

void Mutex::Lock() {
  AcquireAtEnd order(this);
  RECURVE_ORIGINAL("5Mutex4LockEv", void)(this);
}

void Mutex::Unlock() {
  ReleaseAtStart order(this);
  RECURVE_ORIGINAL("5Mutex6UnlockEv", void)(this);
}

bool Mutex::TryLock() {
  AcquireAtEnd order(this);
  return RECURVE_ORIGINAL("5Mutex7TryLockEv", bool)(this);
}

void Mutex::ReaderLock() {
  AcquireAtEnd order(this);
  RECURVE_ORIGINAL("5Mutex10ReaderLockEv", void)(this);
}

void Mutex::ReaderUnlock() {
  ReleaseAtStart order(this);
  RECURVE_ORIGINAL("5Mutex12ReaderUnlockEv", void)(this);
}

bool Mutex::ReaderTryLock() {
  AcquireAtEnd order(this);
  return RECURVE_ORIGINAL("5Mutex13ReaderTryLockEv", bool)(this);
}

void Mutex::LockWhen(const Condition& condition) {
  AcquireAtEnd order(this);
  RECURVE_ORIGINAL("5Mutex8LockWhenERKNS0_9ConditionE", void)
  (this, &condition);
}

bool Mutex::LockWhenWithTimeout(const Condition& condition, Duration timeout) {
  AcquireAtEnd order(this);
  return RECURVE_ORIGINAL(
      "5Mutex19LockWhenWithTimeoutERKNS0_9ConditionENS0_8DurationE", bool)(
      this, &condition, timeout);
}

bool Mutex::LockWhenWithDeadline(const Condition& condition, Time deadline) {
  AcquireAtEnd order(this);
  return RECURVE_ORIGINAL(
      "5Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE", bool)(
      this, &condition, deadline);
}

void Mutex::Await(const Condition& condition) {
  ReleaseThenAcquire order(this);
  RECURVE_ORIGINAL("5Mutex5AwaitERKNS0_9ConditionE", void)(this, &condition);
}

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  ReleaseThenAcquire order(this);
  return RECURVE_ORIGINAL(
      "5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE", bool)(
      this, &condition, timeout);
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  ReleaseThenAcquire order(this);
  return RECURVE_ORIGINAL(
      "5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE", bool)(
      this, &condition, deadline);
}

void CondVar::Wait(Mutex* mutex) {
  ReleaseThenAcquire order(mutex);
  RECURVE_ORIGINAL("7CondVar4WaitEPNS0_5MutexE", void)(this, mutex);
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  ReleaseThenAcquire order(mutex);
  return RECURVE_ORIGINAL(
      "7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE", bool)(this, mutex,
                                                                    timeout);
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) {
  ReleaseThenAcquire order(mutex);
  return RECURVE_ORIGINAL("7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE",
                          bool)(this, mutex, deadline);
}

// HasBeenNotified() is inline, an acquiring load of the flag after the mutex.
void Notification::Notify() {
  __tsan_release(reinterpret_cast<std::byte*>(this) + sizeof(Mutex));
  RECURVE_ORIGINAL("12Notification6NotifyEv", void)(this);
}

bool BlockingCounter::DecrementCount() {
  ReleaseAtStart order(this);
  return RECURVE_ORIGINAL("15BlockingCounter14DecrementCountEv", bool)(this);
}

void BlockingCounter::Wait() {
  AcquireAtEnd order(this);
  RECURVE_ORIGINAL("15BlockingCounter4WaitEv", void)(this);
}

ABSL_NAMESPACE_END
}  // namespace absl
