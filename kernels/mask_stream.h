// What all elements of one dropout mask share: the numbers are Philox's, and
// every backend draws the same bits.
//
// Element (sequence, position, channel) of a mask is lane channel % 4 of
//   Philox({channel / 4, position low, position high, sequence},
//          StreamKey(key))
// where sequence = first_sequence + b, and position is 0 for variational masks
// and positions[b] + t for row t of sequence b otherwise. It is kept if its
// UniformFloat is below keep_probability, which a comparison of integers
// decides: (number >> 8) < threshold.
#ifndef RECURVE_KERNELS_MASK_STREAM_H_
#define RECURVE_KERNELS_MASK_STREAM_H_

#include <cstdint>

#include "kernels/mask_args.h"
#include "kernels/random.h"

namespace recurve {

// Channels whose numbers come from one counter.
inline constexpr int64_t kChannelsPerCounter = 4;

struct MaskStream {
  uint32_t round_keys[kPhiloxRounds][2];  // [0] is StreamKey's
  int32_t threshold;                      // 0 keeps none, 2^24 all
  float scale;                            // of what is kept
};

MaskStream MaskStreamOf(const MaskArgs& args);

}  // namespace recurve

#endif  // RECURVE_KERNELS_MASK_STREAM_H_
