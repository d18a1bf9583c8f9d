#include "kernels/cuda/emulation/fibre.h"

#include <sys/mman.h>

#include <cstdint>

#include "kernels/cuda/emulation/fault.h"

#ifndef __x86_64__
#error "the emulation's fibres are written for x86-64"
#endif

// Present in a binary with the sanitizer, null in others.
extern "C" {
__attribute__((weak)) void __sanitizer_start_switch_fiber(void** fake_stack,
                                                          const void* bottom,
                                                          size_t size);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(
    void* fake_stack, const void** old_bottom, size_t* old_size);
__attribute__((weak)) void* __tsan_get_current_fiber();
__attribute__((weak)) void* __tsan_create_fiber(unsigned flags);
__attribute__((weak)) void __tsan_destroy_fiber(void* fiber);
__attribute__((weak)) void __tsan_switch_to_fiber(void* fiber, unsigned flags);

// Saves the callee's registers on the stack and the stack's pointer in *from,
// then the other way about.
void recurve_cuda_emulation_switch(void** from, void* to);
}

asm(R"(
.text
.globl recurve_cuda_emulation_switch
.hidden recurve_cuda_emulation_switch
.type recurve_cuda_emulation_switch, @function
recurve_cuda_emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size recurve_cuda_emulation_switch, . - recurve_cuda_emulation_switch
)");

namespace recurve::cuda::emulation {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kStackBytes = 128 << 10;  // ASan's frames are wide

// Set around a switch, for the side that wakes up.
Fibre* switched_from = nullptr;
Fibre* switched_to = nullptr;

}  // namespace

Fibre::Fibre() {
  if (__tsan_get_current_fiber) tsan_fibre_ = __tsan_get_current_fiber();
}

Fibre::Fibre(void (*entry)()) : entry_(entry), stack_bytes_(kStackBytes) {
  mapping_ = mmap(nullptr, kPage + kStackBytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) Fault("no memory for the stack of a thread");
  mprotect(mapping_, kPage, PROT_NONE);
  stack_bottom_ = static_cast<char*>(mapping_) + kPage;
  // What the first switch pops: six registers, then Enter as the address to
  // return to, then nothing to return to after it (and the stack's pointer is 8
  // off a multiple of 16, as at the entry of every function).
  auto* top = reinterpret_cast<uintptr_t*>(static_cast<char*>(mapping_) +
                                           kPage + kStackBytes);
  *--top = 0;
  *--top = reinterpret_cast<uintptr_t>(&Fibre::Enter);
  for (int i = 0; i < 6; ++i) *--top = 0;
  stack_pointer_ = top;
  if (__tsan_create_fiber) tsan_fibre_ = __tsan_create_fiber(0);
}

Fibre::~Fibre() {
  if (mapping_ == nullptr) return;
  if (__tsan_destroy_fiber) __tsan_destroy_fiber(tsan_fibre_);
  munmap(mapping_, kPage + kStackBytes);
}

void Fibre::SwitchTo(Fibre& to) {
  switched_from = this;
  switched_to = &to;
  if (__sanitizer_start_switch_fiber) {
    __sanitizer_start_switch_fiber(&fake_stack_, to.stack_bottom_,
                                   to.stack_bytes_);
  }
  if (__tsan_switch_to_fiber) __tsan_switch_to_fiber(to.tsan_fibre_, 0);
  recurve_cuda_emulation_switch(&stack_pointer_, to.stack_pointer_);
  if (__sanitizer_finish_switch_fiber) {
    __sanitizer_finish_switch_fiber(fake_stack_, &switched_from->stack_bottom_,
                                    &switched_from->stack_bytes_);
  }
}

void Fibre::Enter() {
  if (__sanitizer_finish_switch_fiber) {
    __sanitizer_finish_switch_fiber(nullptr, &switched_from->stack_bottom_,
                                    &switched_from->stack_bytes_);
  }
  switched_to->entry_();
  Fault("the entry of a fibre returned");
}

}  // namespace recurve::cuda::emulation
