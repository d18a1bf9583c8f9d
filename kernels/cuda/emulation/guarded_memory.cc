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
// Protecting many small pages takes a millisecond, a few huge ones nothing.
constexpr size_t kHugePage = 2 << 20;
constexpr size_t kLarge = 2 * kHugePage;
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
  const size_t pages_bytes = RoundUp(size, kPage);
  const size_t pages_alignment = size >= kLarge ? kHugePage : kPage;
  mapping_bytes_ = pages_bytes + 2 * kGapBytes + pages_alignment;
  void* mapping = mmap(nullptr, mapping_bytes_, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) Fault("no memory for %zu bytes", size);
  mapping_ = static_cast<char*>(mapping);
  pages_ = reinterpret_cast<char*>(RoundUp(
      reinterpret_cast<uintptr_t>(mapping_ + kGapBytes), pages_alignment));
  pages_end_ = pages_ + pages_bytes;
  data_ = pages_end_ - RoundUp(size, alignment);
  if (size >= kLarge) madvise(pages_, pages_bytes, MADV_HUGEPAGE);
  SetAccessible(true);
  PoisonGuards(false);
  WriteGuard(pages_, data_);
  WriteGuard(data_ + size_, pages_end_);
  PoisonGuards(true);
  Fill();
}

GuardedMemory::~GuardedMemory() {
  PoisonGuards(false);
  munmap(mapping_, mapping_bytes_);
}

void GuardedMemory::Fill() { std::memset(data_, 0xFF, size_); }

void GuardedMemory::SetAccessible(bool accessible) {
  int protection = accessible ? PROT_READ | PROT_WRITE : PROT_NONE;
  if (mprotect(pages_, pages_end_ - pages_, protection) != 0) {
    Fault("mprotect failed: too many allocations?");
  }
}

void GuardedMemory::Discard() {
  madvise(pages_, pages_end_ - pages_, MADV_DONTNEED);
  SetAccessible(false);
}

void GuardedMemory::PoisonGuards(bool poison) const {
  auto* change =
      poison ? __asan_poison_memory_region : __asan_unpoison_memory_region;
  if (change == nullptr) return;
  change(pages_, data_ - pages_);
  change(data_ + size_, pages_end_ - data_ - size_);
}

bool GuardedMemory::GuardsAreIntact() const {
  PoisonGuards(false);
  bool intact =
      HoldsGuard(pages_, data_) && HoldsGuard(data_ + size_, pages_end_);
  PoisonGuards(true);
  return intact;
}

}  // namespace recurve::cuda::emulation
