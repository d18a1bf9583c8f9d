#include "kernels/mask_stream.h"

#include <array>
#include <cmath>
#include <cstdint>

namespace recurve {

MaskStream MaskStreamOf(const MaskArgs& args) {
  MaskStream stream;
  std::array<uint32_t, 2> key = StreamKey(args.key);
  for (auto& round_key : stream.round_keys) {
    for (int i = 0; i < 2; ++i) {
      round_key[i] = key[i];
      key[i] += kPhiloxKeySteps[i];
    }
  }
  // n * 2^-24 < p exactly when n < ceil(p * 2^24): the product is exact.
  stream.threshold = static_cast<int32_t>(
      std::ceil(static_cast<double>(args.keep_probability) * 0x1p24));
  stream.scale = args.scale;
  return stream;
}

}  // namespace recurve
