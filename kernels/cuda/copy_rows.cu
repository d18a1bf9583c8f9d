#include <cstdint>

#include "kernels/cuda/copy_rows.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/storage.cuh"

namespace recurve::cuda {
namespace {

// A warp takes a row.
template <bool kAligned>
__global__ void __launch_bounds__(kBlockThreads)
    CopyRowsKernel(const CopyRowsArgs p) {
  const int64_t cols = p.to.cols;
  for (int64_t i = FirstRow(); i < p.count; i += RowStep()) {
    const float* from = p.from.row(p.from_rows[i]);
    float* to = p.to.row(p.to_rows[i]);
    ForEachPart<float>(cols, [&](int64_t j) {
      float values[kWideVec<float>];
      LoadPart<kAligned>(from + j, cols - j, 0.0f, values);
      StorePart<kAligned>(values, cols - j, to + j);
    });
  }
}

}  // namespace

// --- Launchers ---

cudaError_t CopyRows(const CopyRowsArgs& args, cudaStream_t stream) {
  return LaunchRows<CopyRowsKernel<true>, CopyRowsKernel<false>>(
      IsWide(args.from) && IsWide(args.to), args.count, stream, args);
}

}  // namespace recurve::cuda
