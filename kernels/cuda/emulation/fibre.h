// Stacks that one OS thread switches between by hand (x86-64, System V ABI): a
// switch saves six registers and takes a few nanoseconds. AddressSanitizer and
// ThreadSanitizer are told of each switch when they are in the binary.
#ifndef RECURVE_KERNELS_CUDA_EMULATION_FIBRE_H_
#define RECURVE_KERNELS_CUDA_EMULATION_FIBRE_H_

#include <cstddef>

namespace recurve::cuda::emulation {

class Fibre {
 public:
  // Stands for the stack that the caller runs on; to be switched from first.
  Fibre();
  // A new stack with an inaccessible page below it. entry is called on the
  // first switch to it and never returns.
  explicit Fibre(void (*entry)());
  ~Fibre();
  Fibre(const Fibre&) = delete;
  Fibre& operator=(const Fibre&) = delete;

  // Goes on where `to` last switched away; returns when somebody switches back.
  // *this is the running fibre.
  void SwitchTo(Fibre& to);

 private:
  static void Enter();

  void* stack_pointer_ = nullptr;
  void (*entry_)() = nullptr;
  void* mapping_ = nullptr;
  // What AddressSanitizer wants to know of a stack, and ThreadSanitizer's name
  // for it.
  const void* stack_bottom_ = nullptr;
  size_t stack_bytes_ = 0;
  void* fake_stack_ = nullptr;
  void* tsan_fibre_ = nullptr;
};

}  // namespace recurve::cuda::emulation

#endif  // RECURVE_KERNELS_CUDA_EMULATION_FIBRE_H_
