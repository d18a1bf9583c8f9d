#include "tests/memory/allocation_count.h"

#include <execinfo.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RECURVE_COUNTS_ALLOCATIONS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define RECURVE_COUNTS_ALLOCATIONS 0
#endif
#endif
#ifndef RECURVE_COUNTS_ALLOCATIONS
#define RECURVE_COUNTS_ALLOCATIONS 1
#endif

namespace recurve {
namespace {

std::atomic<int64_t> allocations = 0;
thread_local int64_t allocations_here = 0;

constexpr int kMaxReports = 5;
std::atomic<int> reports = 0;  // that may still be made
thread_local bool is_reported = true;

#if RECURVE_COUNTS_ALLOCATIONS
void Report() {
  is_reported = false;  // not what reporting takes itself
  void* callers[24];
  backtrace_symbols_fd(callers, backtrace(callers, 24), STDERR_FILENO);
  (void)!write(STDERR_FILENO, "\n", 1);
  is_reported = true;
}

void Count() {
  allocations.fetch_add(1, std::memory_order_relaxed);
  ++allocations_here;
  if (is_reported && reports.load(std::memory_order_relaxed) > 0 &&
      reports.fetch_sub(1) > 0) {
    Report();
  }
}
#endif

}  // namespace

AllocationCount CountAllocations() {
  return {allocations_here, allocations.load() - allocations_here};
}

bool AllocationsAreCounted() { return RECURVE_COUNTS_ALLOCATIONS; }

void ReportAllocations(bool here) {
  void* caller;
  backtrace(&caller, 1);  // its first call allocates
  is_reported = here;
  reports = kMaxReports;
}

void StopReports() { reports = 0; }

}  // namespace recurve

#if RECURVE_COUNTS_ALLOCATIONS

// What glibc's own are built of.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) noexcept {
  recurve::Count();
  return __libc_malloc(size);
}

void* calloc(size_t count, size_t size) noexcept {
  recurve::Count();
  return __libc_calloc(count, size);
}

void* realloc(void* memory, size_t size) noexcept {
  recurve::Count();
  return __libc_realloc(memory, size);
}

void* memalign(size_t alignment, size_t size) noexcept {
  recurve::Count();
  return __libc_memalign(alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return memalign(alignment, size);
}

int posix_memalign(void** memory, size_t alignment, size_t size) noexcept {
  *memory = memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
}  // extern "C"

#endif  // RECURVE_COUNTS_ALLOCATIONS
