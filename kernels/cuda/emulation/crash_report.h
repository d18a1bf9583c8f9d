// Says which memory or which thread of a kernel it was when a program dies of a
// signal.
#ifndef RECURVE_KERNELS_CUDA_EMULATION_CRASH_REPORT_H_
#define RECURVE_KERNELS_CUDA_EMULATION_CRASH_REPORT_H_

namespace recurve::cuda::emulation {

// From the first call on, SIGSEGV (guard pages, device memory touched by the
// host) and SIGILL (what the compiler's checks of alignment and array bounds
// raise) print a line before they go on to what they did before.
void ExplainCrashes();

}  // namespace recurve::cuda::emulation

#endif  // RECURVE_KERNELS_CUDA_EMULATION_CRASH_REPORT_H_
