#include "kernels/cuda/pool.h"

#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/pool.h"
#include "kernels/cuda/matrix_test_util.h"

namespace recurve::cuda {
namespace {

constexpr PoolKind kKinds[] = {PoolKind::kLast, PoolKind::kMean,
                               PoolKind::kMax};

template <typename S>
class CudaPool : public ::testing::Test {};
TYPED_TEST_SUITE(CudaPool, StorageTypes);

template <typename S>
std::vector<float> Floats(const std::vector<S>& values) {
  std::vector<float> floats;
  for (const S& value : values) floats.push_back(ToFloat(value));
  return floats;
}

// What S holds of the CPU backend's floats.
template <typename S>
std::vector<S> Stored(const std::vector<float>& values) {
  std::vector<S> stored;
  for (const float value : values) stored.push_back(FromFloat<S>(value));
  return stored;
}

// Few different values, so that maxima are not unique, and NaN.
template <typename S>
std::vector<S> Rows(int64_t count) {
  std::vector<S> x;
  for (const float value : RandomStored<float>(count, 1, 3.0f)) {
    const bool nan = value > 2.8f;
    x.push_back(
        FromFloat<S>(nan ? std::numeric_limits<float>::quiet_NaN()
                         : static_cast<float>(static_cast<int>(value))));
  }
  return x;
}

template <typename S>
void Check(PoolKind kind, const DeviceLayout& layout, Width width) {
  const int64_t cols = width.cols, sequences = layout.sequences();
  std::vector<S> x = Rows<S>(layout.rows() * cols);
  const std::vector<S> dy = RandomStored<S>(sequences * cols, 2);
  const DeviceMatrix<S> device_x(layout.rows(), width, x), y(sequences, width),
      device_dy(sequences, width, dy), dx(layout.rows(), width);
  const DeviceMatrix<int32_t> argmax(sequences, width);
  PoolArgs<S> args = {.kind = kind,
                      .layout = layout.view(),
                      .carry = {},
                      .x = device_x.constant(),
                      .y = y.view(),
                      .argmax = argmax.view(),
                      .dy = device_dy.constant(),
                      .dx = dx.view()};
  ASSERT_EQ(PoolForward(args, nullptr), cudaSuccess);
  ASSERT_EQ(PoolBackward(args, nullptr), cudaSuccess);

  const std::vector<float> cpu_x = Floats(x), cpu_dy = Floats(dy);
  std::vector<float> cpu_y(sequences * cols), cpu_dx(x.size());
  std::vector<int32_t> cpu_argmax(sequences * cols);
  const PoolArgs<float> cpu_args = {
      .kind = kind,
      .layout = layout.on_host(),
      .carry = {},
      .x = {cpu_x.data(), layout.rows(), cols},
      .y = {cpu_y.data(), sequences, cols},
      .argmax = {cpu_argmax.data(), sequences, cols},
      .dy = {cpu_dy.data(), sequences, cols},
      .dx = {cpu_dx.data(), layout.rows(), cols}};
  ASSERT_TRUE(cpu::PoolForward(cpu_args).ok());
  ASSERT_TRUE(cpu::PoolBackward(cpu_args).ok());
  // NaNs have no one bit pattern.
  y.ExpectNear(ToDoubles(Stored<S>(cpu_y)), {});
  dx.ExpectSame(Stored<S>(cpu_dx));
  if (kind == PoolKind::kMax) argmax.ExpectSame(cpu_argmax);
}

TYPED_TEST(CudaPool, IsTheCpuBackends) {
  for (const PoolKind kind : kKinds) {
    for (const auto& lengths : kLengths) {
      for (const Width& width : kWidths) {
        Check<TypeParam>(kind, DeviceLayout(lengths), width);
      }
    }
  }
}

struct HostCarry {
  HostCarry(int64_t sequences, int64_t cols)
      : rows(sequences), sums(sequences * cols), maxima(sequences * cols) {}
  PoolCarry view(int64_t sequences, int64_t cols) {
    return {{rows.data(), sequences, 1},
            {sums.data(), sequences, cols},
            {maxima.data(), sequences, cols}};
  }

  std::vector<int64_t> rows;
  std::vector<double> sums;
  std::vector<float> maxima;
};

// Sequences in as many parts as there are lists of lengths.
template <typename S>
void CheckParts(PoolKind kind, const std::vector<std::vector<int64_t>>& parts,
                Width width) {
  const int64_t cols = width.cols, sequences = parts[0].size();
  HostCarry carry(sequences, cols);
  const DeviceMatrix<int64_t> rows(sequences, {1, 5}, carry.rows);
  const DeviceMatrix<double> sums(sequences, width, carry.sums);
  const DeviceMatrix<float> maxima(sequences, width, carry.maxima);
  for (const std::vector<int64_t>& lengths : parts) {
    const DeviceLayout layout(lengths);
    const std::vector<S> x = Rows<S>(layout.rows() * cols);
    const DeviceMatrix<S> device_x(layout.rows(), width, x),
        y(sequences, width);
    PoolArgs<S> args;
    args.kind = kind;
    args.layout = layout.view();
    args.carry = {rows.view(), sums.view(), maxima.view()};
    args.x = device_x.constant();
    args.y = y.view();
    ASSERT_EQ(PoolForward(args, nullptr), cudaSuccess);
    const std::vector<float> cpu_x = Floats(x);
    std::vector<float> cpu_y(sequences * cols);
    PoolArgs<float> cpu_args;
    cpu_args.kind = kind;
    cpu_args.layout = layout.on_host();
    cpu_args.carry = carry.view(sequences, cols);
    cpu_args.x = {cpu_x.data(), layout.rows(), cols};
    cpu_args.y = {cpu_y.data(), sequences, cols};
    ASSERT_TRUE(cpu::PoolForward(cpu_args).ok());
    y.ExpectNear(ToDoubles(Stored<S>(cpu_y)), {});
    rows.ExpectSame(carry.rows);
    if (kind == PoolKind::kMean) sums.ExpectNear(carry.sums, {});
    if (kind == PoolKind::kMax) maxima.ExpectNear(ToDoubles(carry.maxima), {});
  }
}

TYPED_TEST(CudaPool, InPartsIsTheCpuBackends) {
  for (const PoolKind kind : {PoolKind::kMean, PoolKind::kMax}) {
    for (const Width& width : kWidths) {
      CheckParts<TypeParam>(kind, {{0, 1, 5, 0}, {3, 1, 0, 0}, {0, 2, 7, 0}},
                            width);
    }
  }
}

// More sequences than the grid has threads.
TEST(CudaPoolParts, CountRowsInStrides) {
  const int64_t sequences = 2048 * 256 + 3;
  std::vector<int64_t> lengths(sequences, 0);
  lengths.front() = lengths.back() = 2;
  CheckParts<float>(PoolKind::kMean, {lengths}, {1, 1});
}

TEST(CudaPoolArgmax, MayBeAbsent) {
  const DeviceLayout layout({2, 0});
  const DeviceMatrix<float> x(2, {1, 1}, {1.0f, 2.0f}), y(2, {1, 1});
  PoolArgs<float> args;
  args.kind = PoolKind::kMax;
  args.layout = layout.view();
  args.x = x.constant();
  args.y = y.view();
  ASSERT_EQ(PoolForward(args, nullptr), cudaSuccess);
  y.ExpectSame({2.0f, 0.0f});
}

}  // namespace
}  // namespace recurve::cuda
