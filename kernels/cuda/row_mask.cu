#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/row_mask.h"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/storage.cuh"

namespace recurve::cuda {
namespace {

template <typename S>
struct RowMaskParameters {
  SequenceLayout layout;
  Matrix<const S> x;
  Matrix<const float> mask;
  Matrix<S> y;
  bool accumulate;
};

template <typename S, bool kAligned>
__global__ void __launch_bounds__(kBlockThreads)
    RowMaskKernel(const RowMaskParameters<S> p) {
  constexpr int kPart = kWideVec<S>;
  for (int64_t r = FirstRow(); r < p.x.rows; r += RowStep()) {
    const float* mask = p.mask.row(SequenceOfRow(p.layout, r));
    ForEachPart<S>(p.x.cols, [&](int64_t j) {
      const int64_t left = p.x.cols - j;
      float x[kPart], factors[kPart], y[kPart];
      LoadPart<kAligned>(p.x.row(r) + j, left, 0.0f, x);
      LoadPart<kAligned>(mask + j, left, 0.0f, factors);
      if (p.accumulate) LoadPart<kAligned>(p.y.row(r) + j, left, 0.0f, y);
#pragma unroll
      for (int i = 0; i < kPart; ++i) {
        y[i] = p.accumulate ? fmaf(x[i], factors[i], y[i]) : x[i] * factors[i];
      }
      StorePart<kAligned>(y, left, p.y.row(r) + j);
    });
  }
}

}  // namespace

// --- Launchers ---

template <typename S>
cudaError_t MultiplyBySequenceMask(const SequenceLayout& layout,
                                   Matrix<const S> x, Matrix<const float> mask,
                                   Matrix<S> y, Destination destination,
                                   cudaStream_t stream) {
  return LaunchRows<RowMaskKernel<S, true>, RowMaskKernel<S, false>>(
      IsWide(x) && IsWide(mask) && IsWide(y), x.rows, stream,
      RowMaskParameters<S>{layout, x, mask, y,
                           destination == Destination::kAccumulate});
}

#define RECURVE_INSTANTIATE(S)                                                \
  template cudaError_t MultiplyBySequenceMask(                                \
      const SequenceLayout&, Matrix<const S>, Matrix<const float>, Matrix<S>, \
      Destination, cudaStream_t)
RECURVE_INSTANTIATE(float);
RECURVE_INSTANTIATE(BFloat16);
RECURVE_INSTANTIATE(Float16);
#undef RECURVE_INSTANTIATE

}  // namespace recurve::cuda
