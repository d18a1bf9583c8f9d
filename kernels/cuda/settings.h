// What builds without CUDA know of a CUDA device, too: to read --devices and to
// plan its memory.
#ifndef RECURVE_KERNELS_CUDA_SETTINGS_H_
#define RECURVE_KERNELS_CUDA_SETTINGS_H_

#include <cstdint>

namespace recurve::cuda {

// How matrix products multiply; all of them add in float32.
enum class ProductPrecision {
  kFp32,
  kTf32,  // factors with 10 bits of mantissa, the exponent of float32
  kBf16,  // 7 bits, the exponent of float32
  kFp16,  // 10 bits, up to 65504
};

// What a device keeps for itself, besides what Allocate gives out: cuBLASLt's
// workspace and the partial sums of reductions.
inline constexpr int64_t kWorkspaceBytes = (int64_t{32} << 20) + (64 << 10);

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_SETTINGS_H_
