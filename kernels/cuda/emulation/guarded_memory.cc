#include "kernels/cuda/emulation/guarded_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>

#include "kernels/cuda/emulation/fault.h"

// Present in a binary with AddressSanitizer, null in others.
extern "C" {
__attribute__((weak)) void __asan_poison_memory_region(void const volatile*,
                                                       size_t);
__attribute__((weak)) void __asan_unpoison_memory_region(void const volatile*,
                                                         size_t);
}

namespace recurve::cuda::emulation {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kGapBytes = 64 << 10;  // on either side; addresses alone
// NaN as a float, so that reading a guard shows, and nothing a kernel would
// write.
constexpr unsigned char kGuard[4] = {0x5A, 0x5A, 0xFA, 0xFF};

size_t RoundUp(size_t size, size_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}

void WriteGuard(char* begin, char* end) {
  for (char* p = begin; p != end; ++p) {
    *p = static_cast<char>(kGuard[reinterpret_cast<uintptr_t>(p) % 4]);
  }
}

bool HoldsGuard(const char* begin, const char* end) {
  for (const char* p = begin; p != end; ++p) {
    if (*p != static_cast<char>(kGuard[reinterpret_cast<uintptr_t>(p) % 4])) {
      return false;
    }
  }
  return true;
}

}  // namespace

GuardedMemory::GuardedMemory(size_t size, size_t alignment) : size_(size) {
  mapping_bytes_ = RoundUp(size, kPage) + 2 * kGapBytes;
  void* mapping = mmap(nullptr, mapping_bytes_, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) Fault("no memory for %zu bytes", size);
  mapping_ = static_cast<char*>(mapping);
  data_ = pages_end() - RoundUp(size, alignment);
  SetAccessible(true);
  PoisonGuards(false);
  WriteGuard(pages(), data_);
  WriteGuard(data_ + size_, pages_end());
  PoisonGuards(true);
  Fill();
}

GuardedMemory::~GuardedMemory() {
  PoisonGuards(false);
  munmap(mapping_, mapping_bytes_);
}

char* GuardedMemory::pages() const { return mapping_ + kGapBytes; }
char* GuardedMemory::pages_end() const {
  return mapping_ + mapping_bytes_ - kGapBytes;
}

void GuardedMemory::Fill() { std::memset(data_, 0xFF, size_); }

void GuardedMemory::SetAccessible(bool accessible) {
  int protection = accessible ? PROT_READ | PROT_WRITE : PROT_NONE;
  if (mprotect(pages(), pages_end() - pages(), protection) != 0) {
    Fault("mprotect failed: too many allocations?");
  }
}

void GuardedMemory::Discard() {
  madvise(pages(), pages_end() - pages(), MADV_DONTNEED);
  SetAccessible(false);
}

void GuardedMemory::PoisonGuards(bool poison) const {
  auto* change =
      poison ? __asan_poison_memory_region : __asan_unpoison_memory_region;
  if (change == nullptr) return;
  change(pages(), data_ - pages());
  change(data_ + size_, pages_end() - data_ - size_);
}

bool GuardedMemory::GuardsAreIntact() const {
  PoisonGuards(false);
  bool intact =
      HoldsGuard(pages(), data_) && HoldsGuard(data_ + size_, pages_end());
  PoisonGuards(true);
  return intact;
}

}  // namespace recurve::cuda::emulation
