// Accuracy of math-inl.h against double, on every instruction set of this
// machine, and the independence of a lane's bits from the vector's length.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/test_util.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/math_test.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace recurve::cpu {
namespace HWY_NAMESPACE {

void SigmoidArray(const float* x, int64_t count, float* y) {
  ForEachVector(count, [=](auto d, int64_t j) HWY_ATTR {
    hn::StoreU(Sigmoid(d, hn::LoadU(d, x + j)), d, y + j);
  });
}

void TanhArray(const float* x, int64_t count, float* y) {
  ForEachVector(count, [=](auto d, int64_t j) HWY_ATTR {
    hn::StoreU(Tanh(d, hn::LoadU(d, x + j)), d, y + j);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace recurve::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace recurve::cpu {
namespace {

HWY_EXPORT(SigmoidArray);
HWY_EXPORT(TanhArray);

using ArrayFunction = void (*)(const float*, int64_t, float*);

void CallSigmoid(const float* x, int64_t count, float* y) {
  HWY_DYNAMIC_DISPATCH(SigmoidArray)(x, count, y);
}
void CallTanh(const float* x, int64_t count, float* y) {
  HWY_DYNAMIC_DISPATCH(TanhArray)(x, count, y);
}

double SigmoidInDouble(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

// Every 977th float from -infinity to infinity: all exponents, denormals too.
std::vector<float> AllMagnitudes() {
  std::vector<float> x;
  constexpr uint32_t kInfinity = 0x7f800000u;
  for (uint32_t bits = 0; bits <= kInfinity; bits += 977) {
    x.push_back(std::bit_cast<float>(bits));
    x.push_back(-std::bit_cast<float>(bits));
  }
  return x;
}

// Where the functions bend, densely.
std::vector<float> OrdinaryArguments() {
  std::vector<float> x;
  for (int i = -1'000'000; i <= 1'000'000; ++i) x.push_back(i * 1.0001e-4f);
  return x;
}

// Distance in units of the last place of the exact value's float neighbourhood.
double UlpError(float got, double exact) {
  const float nearest = static_cast<float>(exact);
  const float magnitude = std::max(std::abs(nearest), 0x1p-126f);
  const double ulp =
      double{std::nextafter(magnitude, INFINITY)} - double{magnitude};
  return std::abs(got - exact) / ulp;
}

void ExpectAccurate(ArrayFunction function, double (*exact)(double),
                    double smallest, double max_ulp) {
  for (const std::vector<float>& x : {AllMagnitudes(), OrdinaryArguments()}) {
    std::vector<float> y(x.size());
    function(x.data(), x.size(), y.data());
    double worst = 0;
    size_t at = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double reference = exact(x[i]);
      if (std::abs(reference) < smallest) {
        EXPECT_EQ(y[i], 0.0f) << "at " << x[i];
        continue;
      }
      const double error = UlpError(y[i], reference);
      if (!(error <= worst)) worst = error, at = i;
    }
    EXPECT_LE(worst, max_ulp)
        << "at " << x[at] << ": " << y[at] << " for " << exact(x[at]);
  }
}

TEST(MathTest, SigmoidIsAccurate) {
  // Results that would be denormal are 0: exp(-87.336) is just above 2^-126.
  ForEachInstructionSet([] {
    ExpectAccurate(CallSigmoid, SigmoidInDouble, std::exp(-87.336), 3.0);
  });
}

TEST(MathTest, TanhIsAccurate) {
  ForEachInstructionSet([] {
    ExpectAccurate(
        CallTanh, [](double x) { return std::tanh(x); }, 0.0, 3.0);
  });
}

TEST(MathTest, SpecialValues) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  ForEachInstructionSet([] {
    for (uint32_t bits : {0x7fc00000u, 0x7fc00001u, 0x7fffffffu, 0xffc00123u}) {
      const float nan = std::bit_cast<float>(bits);
      const std::vector<float> x(33, nan);
      std::vector<float> y(33);
      CallSigmoid(x.data(), 33, y.data());
      for (float value : y) EXPECT_TRUE(std::isnan(value));
      CallTanh(x.data(), 33, y.data());
      for (float value : y) EXPECT_TRUE(std::isnan(value));
    }
    const float x[] = {0.0f, -0.0f, kInfinity, -kInfinity};
    float y[4];
    CallSigmoid(x, 4, y);
    EXPECT_EQ(y[0], 0.5f);
    EXPECT_EQ(y[1], 0.5f);
    EXPECT_EQ(y[2], 1.0f);
    EXPECT_EQ(y[3], 0.0f);
    CallTanh(x, 4, y);
    EXPECT_EQ(y[0], 0.0f);
    EXPECT_FALSE(std::signbit(y[0]));
    EXPECT_TRUE(y[1] == 0.0f && std::signbit(y[1]));
    EXPECT_EQ(y[2], 1.0f);
    EXPECT_EQ(y[3], -1.0f);
  });
}

TEST(MathTest, ALaneAloneHasTheSameBits) {
  ForEachInstructionSet([] {
    const std::vector<float> x = AllMagnitudes();
    for (ArrayFunction function : {CallSigmoid, CallTanh}) {
      std::vector<float> y(x.size());
      function(x.data(), x.size(), y.data());
      for (size_t i = 0; i < x.size(); ++i) {
        float alone;
        function(&x[i], 1, &alone);
        ASSERT_EQ(std::bit_cast<uint32_t>(alone), std::bit_cast<uint32_t>(y[i]))
            << "at " << x[i];
      }
    }
  });
}

}  // namespace
}  // namespace recurve::cpu
#endif  // HWY_ONCE
