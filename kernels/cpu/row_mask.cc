#include "kernels/cpu/row_mask.h"

#include <cstdint>

#include "kernels/cpu/sequence_blocks.h"

namespace recurve::cpu {

void MultiplyBySequenceMask(const SequenceLayout& layout, Matrix<const float> x,
                            Matrix<const float> mask, Matrix<float> y,
                            Destination destination) {
  const bool accumulate = destination == Destination::kAccumulate;
  ForEachSequenceBlock(layout, x.cols, 1, [&](const SequenceBlock& block) {
    const float* factors = mask.row(block.sequence) + block.channel;
    for (int64_t r = block.begin_row; r < block.end_row; ++r) {
      const float* from = x.row(r) + block.channel;
      float* to = y.row(r) + block.channel;
#pragma omp simd
      for (int64_t j = 0; j < block.count; ++j) {
        const float product = from[j] * factors[j];
        to[j] = accumulate ? to[j] + product : product;
      }
    }
  });
}

}  // namespace recurve::cpu
