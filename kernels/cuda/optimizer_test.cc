#include "kernels/cuda/optimizer.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/cuda/matrix_test_util.h"

namespace recurve::cuda {
namespace {

// The first element of each buffer; all but multiples of 4 are not aligned.
struct Offsets {
  int64_t p = 0, g = 0, m = 0, v = 0;
};

// Two updates. Expects the CPU backend's bits.
void Check(OptimizerArgs args, int64_t count, const Offsets& offset) {
  const int64_t size = count + 1;
  std::vector<float> p = RandomStored<float>(size, 1);
  const std::vector<float> g = RandomStored<float>(size, 2);
  std::vector<float> m(size), v(size);
  const DeviceArray<float> device_p(p), device_g(g), device_m(m), device_v(v);
  for (args.step = 1; args.step <= 2; ++args.step) {
    args.count = count;
    args.parameters = p.data() + offset.p;
    args.gradients = g.data() + offset.g;
    args.first_moment = m.data() + offset.m;
    args.second_moment = v.data() + offset.v;
    ASSERT_TRUE(cpu::Update(args).ok());
    args.parameters = device_p.data() + offset.p;
    args.gradients = device_g.data() + offset.g;
    args.first_moment = device_m.data() + offset.m;
    args.second_moment = device_v.data() + offset.v;
    ASSERT_EQ(Update(args, nullptr), cudaSuccess);
  }
  emulation::ExpectEqual(device_p, p);
  emulation::ExpectEqual(device_m, m);
  emulation::ExpectEqual(device_v, v);
}

OptimizerArgs Args(OptimizerKind kind, float momentum) {
  return {.kind = kind,
          .gradient_scale = 0.3f,
          .learning_rate = 0.01f,
          .momentum = momentum,
          .weight_decay = 0.1f};
}

TEST(CudaOptimizer, HasTheBitsOfTheCpuBackend) {
  for (const int64_t count : {1, 3, 1027}) {
    for (const Offsets& offset :
         {Offsets{}, {1, 1, 1, 1}, {.p = 1}, {.g = 1}, {.m = 1}, {.v = 1}}) {
      Check(Args(OptimizerKind::kSgd, 0.0f), count, offset);
      Check(Args(OptimizerKind::kSgd, 0.9f), count, offset);
      Check(Args(OptimizerKind::kAdam, 0.0f), count, offset);
      Check(Args(OptimizerKind::kAdamW, 0.0f), count, offset);
    }
  }
}

TEST(CudaOptimizer, WorksOnNothing) {
  EXPECT_EQ(Update(Args(OptimizerKind::kAdam, 0.0f), nullptr), cudaSuccess);
  EXPECT_EQ(Update(Args(OptimizerKind::kSgd, 0.0f), nullptr), cudaSuccess);
}

// AdamW as the paper writes it, in double, independent of the CPU backend.
TEST(CudaOptimizer, AdamWIsTheFormula) {
  const int64_t count = 70;
  const std::vector<float> p = RandomStored<float>(count, 1);
  const std::vector<float> g = RandomStored<float>(count, 2);
  const DeviceArray<float> device_p(p), device_g(g);
  const DeviceArray<float> m(std::vector<float>(count, 0.0f));
  const DeviceArray<float> v(std::vector<float>(count, 0.0f));
  OptimizerArgs args = Args(OptimizerKind::kAdamW, 0.0f);
  args.count = count;
  args.parameters = device_p.data();
  args.gradients = device_g.data();
  args.first_moment = m.data();
  args.second_moment = v.data();
  ASSERT_EQ(Update(args, nullptr), cudaSuccess);
  Doubles expected;
  for (int64_t i = 0; i < count; ++i) {
    const double gradient = 0.3 * g[i];
    // After one step the corrected moments are g and g^2.
    expected.push_back(p[i] * (1 - 0.01 * 0.1) -
                       0.01 * gradient / (std::fabs(gradient) + 1e-8));
  }
  emulation::ExpectNear(device_p, expected, {1e-6, 1e-6});
}

}  // namespace
}  // namespace recurve::cuda
