#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/mask.h"
#include "kernels/cuda/rows.cuh"
#include "kernels/mask_stream.h"

namespace recurve::cuda {
namespace {

struct FillMaskParameters {
  MaskStream stream;
  bool variational;
  SequenceLayout layout;
  int64_t first_sequence;
  const int64_t* positions;
  Matrix<float> mask;
};

constexpr int kPart = static_cast<int>(kChannelsPerCounter);
static_assert(kPart == kWideVec<float>);

// The numbers of one counter (kernels/random.h).
__device__ inline void Philox(const MaskStream& stream, uint32_t (&x)[kPart]) {
#pragma unroll
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint32_t high0 = __umulhi(kPhiloxMultipliers[0], x[0]);
    const uint32_t high1 = __umulhi(kPhiloxMultipliers[1], x[2]);
    const uint32_t low0 = kPhiloxMultipliers[0] * x[0];
    const uint32_t low1 = kPhiloxMultipliers[1] * x[2];
    x[0] = high1 ^ x[1] ^ stream.round_keys[round][0];
    x[1] = low1;
    x[2] = high0 ^ x[3] ^ stream.round_keys[round][1];
    x[3] = low0;
  }
}

// The sequence and position that a row of the mask is for.
struct Row {
  uint32_t sequence;
  uint64_t position;
};

__device__ inline Row RowOf(const FillMaskParameters& p, int64_t r) {
  if (p.variational) return {static_cast<uint32_t>(p.first_sequence + r), 0};
  const int64_t b = SequenceOfRow(p.layout, r);
  const int64_t first = p.positions == nullptr ? 0 : p.positions[b];
  return {static_cast<uint32_t>(p.first_sequence + b),
          static_cast<uint64_t>(first + r - p.layout.cu_seqlens[b])};
}

template <bool kAligned>
__global__ void __launch_bounds__(kBlockThreads)
    FillMaskKernel(const FillMaskParameters p) {
  for (int64_t r = FirstRow(); r < p.mask.rows; r += RowStep()) {
    const Row row = RowOf(p, r);
    ForEachPart<float>(p.mask.cols, [&](int64_t j) {
      uint32_t numbers[kPart] = {
          static_cast<uint32_t>(j / kPart), static_cast<uint32_t>(row.position),
          static_cast<uint32_t>(row.position >> 32), row.sequence};
      Philox(p.stream, numbers);
      float mask[kPart];
#pragma unroll
      for (int i = 0; i < kPart; ++i) {
        const int32_t number = static_cast<int32_t>(numbers[i] >> 8);
        mask[i] = number < p.stream.threshold ? p.stream.scale : 0.0f;
      }
      StorePart<kAligned>(mask, p.mask.cols - j, p.mask.row(r) + j);
    });
  }
}

}  // namespace

// --- Launchers ---

cudaError_t FillMask(const MaskArgs& args, cudaStream_t stream) {
  return LaunchRows<FillMaskKernel<true>, FillMaskKernel<false>>(
      IsWide(args.mask), args.mask.rows, stream,
      FillMaskParameters{MaskStreamOf(args), args.variational, args.layout,
                         args.first_sequence, args.positions, args.mask});
}

}  // namespace recurve::cuda
