#include "engine/base/finite.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace recurve {
namespace {

// A block is looked at whole, without a branch.
constexpr size_t kBlock = 4096;
constexpr uint32_t kExponent = 0x7f800000;  // all of it set: not finite

bool HasNotFinite(const float* numbers, size_t count) {
  uint32_t found = 0;
#pragma omp simd reduction(| : found)
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, numbers + i, sizeof(bits));
    found |= (bits & kExponent) == kExponent;
  }
  return found != 0;
}

}  // namespace

std::optional<int64_t> FirstNotFinite(absl::Span<const float> numbers) {
  for (size_t begin = 0; begin < numbers.size(); begin += kBlock) {
    const auto block = numbers.subspan(begin, kBlock);
    if (!HasNotFinite(block.data(), block.size())) continue;
    const auto first = std::find_if(block.begin(), block.end(),
                                    [](float x) { return !std::isfinite(x); });
    return static_cast<int64_t>(begin) + (first - block.begin());
  }
  return std::nullopt;
}

}  // namespace recurve
