// Argument of the operation that draws a mask; in its backend's memory.
#ifndef RECURVE_KERNELS_MASK_ARGS_H_
#define RECURVE_KERNELS_MASK_ARGS_H_

#include <cstdint>

#include "kernels/random.h"
#include "kernels/tensor.h"

namespace recurve {

// Multiplicative masks of dropout: each element is `scale` with probability
// keep_probability, else 0. The value of an element depends on (key, sequence
// index, channel) and, unless variational, on the position in the stream.
struct MaskArgs {
  RandomKey key;
  float keep_probability = 1.0f;
  float scale = 1.0f;
  bool variational = true;  // mask is [B, C], else [N, C]
  SequenceLayout layout;
  int64_t first_sequence = 0;  // index in the call of layout's sequence 0
  const int64_t* positions =
      nullptr;  // [B] stream position of each first row; absent = 0
  Matrix<float> mask;
};

}  // namespace recurve

#endif  // RECURVE_KERNELS_MASK_ARGS_H_
