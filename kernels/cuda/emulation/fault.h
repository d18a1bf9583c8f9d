// How the emulation ends a program that a GPU would let go wrong.
#ifndef RECURVE_KERNELS_CUDA_EMULATION_FAULT_H_
#define RECURVE_KERNELS_CUDA_EMULATION_FAULT_H_

#include <cstring>

namespace recurve::cuda::emulation {

// A line of a kernel's source.
struct Place {
  const char* file = nullptr;
  int line = 0;

  bool operator==(const Place& other) const {
    return line == other.line && std::strcmp(file, other.file) == 0;
  }
};

// Prints "CUDA emulation: ", the message, and which thread of which kernel was
// running in what order, then aborts.
[[noreturn]] void Fault(const char* format, ...)
    __attribute__((format(printf, 1, 2)));

}  // namespace recurve::cuda::emulation

#endif  // RECURVE_KERNELS_CUDA_EMULATION_FAULT_H_
