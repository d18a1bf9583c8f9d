#include <cstdint>

#include "kernels/cuda/cast.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/storage.cuh"

namespace recurve::cuda {
namespace {

constexpr int kPart = 8;  // 16 bytes of the shorter type

template <typename From, typename To>
struct CastParameters {
  const From* from;
  To* to;
  int64_t count;
};

template <typename From, typename To, bool kAligned>
__global__ void __launch_bounds__(kBlockThreads)
    CastKernel(const CastParameters<From, To> p) {
  for (int64_t j = FirstElement() * kPart; j < p.count;
       j += ElementStep() * kPart) {
    float values[kPart];
    LoadPart<kAligned>(p.from + j, p.count - j, 0.0f, values);
    StorePart<kAligned>(values, p.count - j, p.to + j);
  }
}

}  // namespace

// --- Launchers ---

template <typename From, typename To>
cudaError_t Cast(const From* from, To* to, int64_t count, cudaStream_t stream) {
  const dim3 grid = GridOf(count, kBlockThreads * kPart);
  const CastParameters<From, To> p = {from, to, count};
  return IsWide(from) && IsWide(to) ? Launch<CastKernel<From, To, true>>(
                                          grid, kBlockThreads, stream, p)
                                    : Launch<CastKernel<From, To, false>>(
                                          grid, kBlockThreads, stream, p);
}

template cudaError_t Cast(const float*, BFloat16*, int64_t, cudaStream_t);
template cudaError_t Cast(const float*, Float16*, int64_t, cudaStream_t);
template cudaError_t Cast(const BFloat16*, float*, int64_t, cudaStream_t);
template cudaError_t Cast(const Float16*, float*, int64_t, cudaStream_t);

}  // namespace recurve::cuda
