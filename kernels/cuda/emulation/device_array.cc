#include "kernels/cuda/emulation/device_array.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>

namespace recurve::cuda::emulation {
namespace {

// By how much more than allowed; NaN where none is expected is furthest off.
double Excess(double actual, double expected, Tolerance tolerance) {
  if (actual == expected) return 0;
  if (std::isnan(actual) && std::isnan(expected)) return 0;
  double allowed = tolerance.absolute + tolerance.relative * std::abs(expected);
  double excess = std::abs(actual - expected) - allowed;
  return std::isnan(excess) ? std::numeric_limits<double>::infinity()
                            : std::max(excess, 0.0);
}

std::string PlaceOf(size_t index, size_t columns) {
  if (columns == 0) return "element " + std::to_string(index);
  return "row " + std::to_string(index / columns) + ", column " +
         std::to_string(index % columns);
}

}  // namespace

double ToDouble(BFloat16 value) {
  return std::bit_cast<float>(uint32_t{value.bits} << 16);
}

double ToDouble(Float16 value) {
  constexpr int kFraction = 10, kBias = 15;
  int exponent = value.bits >> kFraction & 31;
  int fraction = value.bits & 1023;
  double magnitude;
  if (exponent == 31) {
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(fraction, 1 - kBias - kFraction);
  } else {
    magnitude = std::ldexp(1024 + fraction, exponent - kBias - kFraction);
  }
  return value.bits >> 15 ? -magnitude : magnitude;
}

void ExpectSuccess(cudaError_t error, const char* what) {
  EXPECT_EQ(error, cudaSuccess) << what << ": " << cudaGetErrorName(error);
}

bool IsUntouched(const void* element, size_t bytes) {
  const auto* begin = static_cast<const unsigned char*>(element);
  return std::all_of(begin, begin + bytes,
                     [](unsigned char byte) { return byte == 0xFF; });
}

void ExpectNearValues(const std::vector<double>& actual,
                      const std::vector<double>& expected,
                      const std::vector<bool>& untouched, Tolerance tolerance,
                      size_t columns) {
  ASSERT_EQ(actual.size(), expected.size());
  size_t worst = 0, off = 0, unwritten = 0;
  double most = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    double excess = untouched[i] ? std::numeric_limits<double>::infinity()
                                 : Excess(actual[i], expected[i], tolerance);
    off += excess > 0;
    unwritten += untouched[i];
    if (excess > most) {
      most = excess;
      worst = i;
    }
  }
  if (off == 0) return;
  ADD_FAILURE() << off << " of " << actual.size() << " elements are off"
                << (unwritten == 0 ? ""
                                   : ", " + std::to_string(unwritten) +
                                         " were never written")
                << "; worst: " << PlaceOf(worst, columns) << " is "
                << actual[worst] << ", expected " << expected[worst]
                << " (tolerance " << tolerance.absolute << " + "
                << tolerance.relative << " * |expected|)";
}

}  // namespace recurve::cuda::emulation
