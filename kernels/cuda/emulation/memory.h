// The allocations of the emulated devices and of pinned host memory.
//
// Device memory is accessible while work that may use it runs, and afterwards
// until nothing is queued any more: a change for every call would cost more
// than small kernels do. Freed memory stays inaccessible for a while before its
// addresses are used again. Called with the runtime's lock held.
#ifndef RECURVE_KERNELS_CUDA_EMULATION_MEMORY_H_
#define RECURVE_KERNELS_CUDA_EMULATION_MEMORY_H_

#include <cstddef>
#include <optional>
#include <set>

namespace recurve::cuda::emulation {

inline constexpr int kPinned = -1;
inline constexpr int kPageable = -2;

// What a range of addresses is.
struct MemoryRange {
  int device = kPageable;  // or kPinned
  // False if it begins in an allocation and goes on behind its end.
  bool inside = true;
};
MemoryRange FindRange(const void* begin, size_t bytes);

// The allocation at or before an address, and how far behind its beginning.
struct Neighbour {
  int device;
  size_t size;
  ptrdiff_t offset;
};
std::optional<Neighbour> FindNeighbour(const void* p);

size_t DeviceMemoryBytes();  // of each device
void ResetDeviceMemory();    // to what it is by default

// Makes exactly these devices' memory accessible.
void OpenDeviceMemory(const std::set<int>& devices);
// Faults if something was written beside an allocation of an open device.
void CheckGuards(const char* kernel);

}  // namespace recurve::cuda::emulation

#endif  // RECURVE_KERNELS_CUDA_EMULATION_MEMORY_H_
