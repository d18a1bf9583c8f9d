#include "kernels/cuda/embedding.h"

#include <cstdint>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/embedding.h"
#include "kernels/cuda/matrix_test_util.h"

namespace recurve::cuda {
namespace {

template <typename S>
class CudaEmbedding : public ::testing::Test {};
TYPED_TEST_SUITE(CudaEmbedding, StorageTypes);

// Small numbers are frequent, as in text.
std::vector<int32_t> RandomTokens(int64_t count, int64_t vocabulary) {
  std::mt19937 random(7);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) {
    token = static_cast<int32_t>(random() % (1 + random() % vocabulary));
  }
  return tokens;
}

TYPED_TEST(CudaEmbedding, ForwardCopiesRowsOfTheTable) {
  using S = TypeParam;
  for (const Width& width : kWidths) {
    for (const int64_t rows : {0, 1, 19}) {
      const std::vector<S> table = RandomStored<S>(7 * width.cols, 1);
      const std::vector<int32_t> tokens = RandomTokens(rows, 7);
      const DeviceMatrix<S> device_table(7, width, table), y(rows, width);
      const DeviceArray<int32_t> device_tokens(tokens);
      ASSERT_EQ(EmbeddingForward<S>({.tokens = device_tokens.data(),
                                     .table = device_table.constant(),
                                     .y = y.view()},
                                    nullptr),
                cudaSuccess);
      std::vector<S> expected;
      for (const int32_t token : tokens) {
        const S* row = &table[token * width.cols];
        expected.insert(expected.end(), row, row + width.cols);
      }
      y.ExpectSame(expected);
    }
  }
}

// The CPU backend's sum, which goes in the order of rows.
template <typename S>
std::vector<float> CpuGradient(const std::vector<int32_t>& tokens,
                               const std::vector<S>& dy, int64_t cols,
                               std::vector<float> dtable, bool accumulate) {
  std::vector<float> floats;
  for (const S& value : dy) floats.push_back(ToFloat(value));
  const int64_t rows = tokens.size(), vocabulary = dtable.size() / cols;
  EXPECT_TRUE(
      cpu::EmbeddingBackward({.tokens = tokens.data(),
                              .dy = {floats.data(), rows, cols},
                              .dtable = {dtable.data(), vocabulary, cols},
                              .accumulate = accumulate})
          .ok());
  return dtable;
}

template <typename S>
void CheckBackward(int64_t rows, int64_t vocabulary, Width width,
                   bool accumulate) {
  const std::vector<int32_t> tokens = RandomTokens(rows, vocabulary);
  const std::vector<S> dy = RandomStored<S>(rows * width.cols, 1);
  const auto before = RandomStored<float>(vocabulary * width.cols, 2);
  const DeviceArray<int32_t> device_tokens(tokens);
  const DeviceMatrix<S> device_dy(rows, width, dy);
  const DeviceMatrix<float> dtable =
      accumulate ? DeviceMatrix<float>(vocabulary, width, before)
                 : DeviceMatrix<float>(vocabulary, width);
  ASSERT_EQ(EmbeddingBackward<S>({.tokens = device_tokens.data(),
                                  .dy = device_dy.constant(),
                                  .dtable = dtable.view(),
                                  .accumulate = accumulate},
                                 nullptr),
            cudaSuccess);
  const std::vector<float> expected =
      CpuGradient(tokens, dy, width.cols, before, accumulate);
  if (vocabulary > kSplitTableRows) {
    dtable.ExpectSame(expected);
  } else {
    // Some hundred terms of magnitude 1 at most.
    dtable.ExpectNear(ToDoubles(expected), {5e-5});
  }
}

TYPED_TEST(CudaEmbedding, SmallTablesGetTheSumOfTheirRows) {
  for (const Width& width : {Width{1, 1}, Width{37, 40}, Width{300, 304}}) {
    for (const bool accumulate : {false, true}) {
      CheckBackward<TypeParam>(0, 3, width, accumulate);
      CheckBackward<TypeParam>(1, 1, width, accumulate);
      CheckBackward<TypeParam>(300, 5, width, accumulate);
    }
  }
}

TYPED_TEST(CudaEmbedding, SumsGoOnOverTiles) {
  CheckBackward<TypeParam>(1024 + 9, 2, {3, 3}, false);
  CheckBackward<TypeParam>(2048, kSplitTableRows + 1, {3, 3}, false);
}

TYPED_TEST(CudaEmbedding, LargeTablesGetTheSumInTheOrderOfRows) {
  for (const Width& width : {Width{1, 1}, Width{33, 33}, Width{37, 40}}) {
    for (const bool accumulate : {false, true}) {
      CheckBackward<TypeParam>(270, kSplitTableRows + 1, width, accumulate);
    }
  }
}

}  // namespace
}  // namespace recurve::cuda
