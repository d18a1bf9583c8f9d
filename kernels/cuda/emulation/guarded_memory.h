// Memory of an exact size in pages of its own, so that what runs over its end
// faults: the end lies at most alignment - 1 bytes before a page that nobody
// may touch. The bytes between, and those before the beginning in its first
// page, hold a pattern that is checked (AddressSanitizer faults on them at
// once).
#ifndef RECURVE_KERNELS_CUDA_EMULATION_GUARDED_MEMORY_H_
#define RECURVE_KERNELS_CUDA_EMULATION_GUARDED_MEMORY_H_

#include <cstddef>

namespace recurve::cuda::emulation {

class GuardedMemory {
 public:
  // REQUIRES: size > 0; alignment a power of two, at most a page. Filled.
  GuardedMemory(size_t size, size_t alignment);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  void* data() const { return data_; }
  size_t size() const { return size_; }
  // Sets every byte to 0xFF: NaN as a float, -1 as an integer.
  void Fill();
  void SetAccessible(bool accessible);
  // Gives the pages' memory back; they fault from now on.
  void Discard();
  // REQUIRES: accessible.
  bool GuardsAreIntact() const;

 private:
  void PoisonGuards(bool poison) const;

  size_t size_;
  char* mapping_;
  size_t mapping_bytes_;
  char* pages_;  // those that may be accessible
  char* pages_end_;
  char* data_;
};

}  // namespace recurve::cuda::emulation

#endif  // RECURVE_KERNELS_CUDA_EMULATION_GUARDED_MEMORY_H_
