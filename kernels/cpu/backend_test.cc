#include "kernels/cpu/backend.h"

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/test_util.h"
#include "kernels/precision.h"

namespace recurve {
namespace {

TEST(CpuBackendTest, BuffersAreAlignedAndCopiesRoundTrip) {
  const std::unique_ptr<Backend> backend = CreateCpuBackend(1);
  for (int64_t bytes : {0, 1, 64, 1000}) {
    auto buffer = backend->Allocate(bytes);
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ((*buffer)->bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>((*buffer)->data()) % kAlignment, 0u);
    std::vector<char> in(bytes, 'x'), out(bytes);
    EXPECT_TRUE(backend->Upload((*buffer)->data(), in.data(), bytes).ok());
    EXPECT_TRUE(backend->Download(out.data(), (*buffer)->data(), bytes).ok());
    EXPECT_EQ(in, out);
    EXPECT_TRUE(backend->Zero((*buffer)->data(), bytes).ok());
    EXPECT_TRUE(backend->Download(out.data(), (*buffer)->data(), bytes).ok());
    EXPECT_EQ(out, std::vector<char>(bytes, '\0'));
  }
}

TEST(CpuBackendTest, MoreMemoryThanThereIsIsRefused) {
  const std::unique_ptr<Backend> backend = CreateCpuBackend(1);
  EXPECT_EQ(backend->Allocate(std::numeric_limits<int64_t>::max() / 4)
                .status()
                .code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(backend->Allocate(-1).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CpuBackendTest, OperationsUseTheDevicesOwnTeam) {
  const std::unique_ptr<Backend> one = CreateCpuBackend(1);
  const std::unique_ptr<Backend> three = CreateCpuBackend(3);
  float sum = 1.0f;
  const float term = 2.0f;
  ASSERT_TRUE(three->Add(&sum, &term, 1).ok());
  EXPECT_EQ(omp_get_max_threads(), 3);
  ASSERT_TRUE(one->Add(&sum, &term, 1).ok());
  EXPECT_EQ(omp_get_max_threads(), 1);
  EXPECT_EQ(sum, 5.0f);
}

TEST(CpuBackendTest, LinearLayersGiveTorchsFormulas) {
  const std::unique_ptr<Backend> backend = CreateCpuBackend(2);
  // x [2, 3], weight [2, 3].
  const std::vector<float> x = {1, 2, 3, -1, 0, 2}, w = {1, 0, -1, 2, 1, 0.5f};
  const std::vector<float> bias = {0.5f, -1}, dy = {1, 2, -1, 3};
  std::vector<float> y(4), dx(6), dw(6), db(2);
  LinearForwardArgs<float> forward;
  forward.x = {x.data(), 2, 3};
  forward.weight = {w.data(), 2, 3};
  forward.bias = bias.data();
  forward.y = {y.data(), 2, 2};
  ASSERT_TRUE(backend->LinearForward(forward).ok());
  EXPECT_EQ(y, (std::vector<float>{-1.5f, 4.5f, -2.5f, -2}));
  LinearBackwardArgs<float> backward;
  backward.x = forward.x;
  backward.weight = forward.weight;
  backward.dy = {dy.data(), 2, 2};
  backward.dx = {dx.data(), 2, 3};
  backward.dweight = {dw.data(), 2, 3};
  backward.dbias = db.data();
  ASSERT_TRUE(backend->LinearBackward(backward).ok());
  EXPECT_EQ(dx, (std::vector<float>{5, 2, 0, 5, 3, 2.5f}));
  EXPECT_EQ(dw, (std::vector<float>{2, 2, 1, -1, 4, 12}));
  EXPECT_EQ(db, (std::vector<float>{0, 5}));
}

struct LinearGradients {
  std::vector<float> dx, dweight, dbias;

  friend bool operator==(const LinearGradients&,
                         const LinearGradients&) = default;
};

// Of `rows` rows, in tiles of `tile` of them.
LinearGradients LinearGradientsByTiles(Backend& backend, int64_t rows,
                                       int64_t tile) {
  constexpr int64_t kInputs = 21, kOutputs = 150;
  const std::vector<float> x = cpu::RandomFloats(rows * kInputs, 1);
  const std::vector<float> weight = cpu::RandomFloats(kOutputs * kInputs, 2);
  const std::vector<float> dy = cpu::RandomFloats(rows * kOutputs, 3);
  LinearGradients to{std::vector<float>(rows * kInputs),
                     std::vector<float>(kOutputs * kInputs, 9.0f),
                     std::vector<float>(kOutputs, 9.0f)};
  for (int64_t first = 0; first < rows; first += tile) {
    const int64_t count = std::min(tile, rows - first);
    LinearBackwardArgs<float> args;
    args.x = {x.data() + first * kInputs, count, kInputs};
    args.weight = {weight.data(), kOutputs, kInputs};
    args.dy = {dy.data() + first * kOutputs, count, kOutputs};
    args.dx = {to.dx.data() + first * kInputs, count, kInputs};
    args.dweight = {to.dweight.data(), kOutputs, kInputs};
    args.dbias = to.dbias.data();
    args.continues = first > 0;
    EXPECT_TRUE(backend.LinearBackward(args).ok());
  }
  return to;
}

TEST(CpuBackendTest, LinearGradientsOfABlockOfRowsMayBeTakenInTiles) {
  for (const Precision products : {Precision::kFloat32, Precision::kBfloat16}) {
    const std::unique_ptr<Backend> backend = CreateCpuBackend(2, products);
    for (const int64_t rows : {int64_t{1}, int64_t{333}, kRowBlock}) {
      const LinearGradients whole =
          LinearGradientsByTiles(*backend, rows, rows);
      for (const int64_t tile : {2, 64, 384}) {
        EXPECT_EQ(LinearGradientsByTiles(*backend, rows, tile), whole)
            << rows << " rows in tiles of " << tile;
      }
    }
  }
}

}  // namespace
}  // namespace recurve
