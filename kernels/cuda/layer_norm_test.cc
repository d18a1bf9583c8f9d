#include "kernels/cuda/layer_norm.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cell_args.h"
#include "kernels/cuda/matrix_test_util.h"

namespace recurve::cuda {
namespace {

struct Reference {
  Doubles hat, y, statistics;
};

Reference Normalize(const Doubles& x, int64_t cols, const Doubles& weight,
                    const Doubles& bias) {
  Reference reference;
  for (size_t row = 0; row < x.size(); row += cols) {
    double mean = 0, variance = 0;
    for (int64_t j = 0; j < cols; ++j) mean += x[row + j] / cols;
    for (int64_t j = 0; j < cols; ++j) {
      variance += (x[row + j] - mean) * (x[row + j] - mean) / cols;
    }
    const double scale = 1 / std::sqrt(variance + kLayerNormEpsilon);
    for (int64_t j = 0; j < cols; ++j) {
      reference.hat.push_back((x[row + j] - mean) * scale);
      reference.y.push_back(reference.hat.back() * weight[j] + bias[j]);
    }
    reference.statistics.insert(reference.statistics.end(), {mean, scale});
  }
  return reference;
}

template <typename S>
class CudaLayerNorm : public ::testing::Test {};
TYPED_TEST_SUITE(CudaLayerNorm, StorageTypes);

// One row of a large mean, so that sums of squares would cancel.
template <typename S>
std::vector<S> Rows(int64_t rows, int64_t cols) {
  std::vector<S> x = RandomStored<S>(rows * cols, 1, 2.0f);
  for (int64_t j = 0; j < cols && rows > 0; ++j) {
    x[j] = FromFloat<S>(100.0f + ToFloat(x[j]));
  }
  return x;
}

// A mean of 100 in float is off by some 1e-5.
constexpr double kAbsolute = 4e-5;

TYPED_TEST(CudaLayerNorm, ForwardIsTheFormula) {
  using S = TypeParam;
  for (const Width& width : kWidths) {
    for (const int64_t rows : {0, 1, 11}) {
      const int64_t cols = width.cols;
      const std::vector<S> x = Rows<S>(rows, cols);
      const auto weight = RandomStored<float>(cols, 2);
      const auto bias = RandomStored<float>(cols, 3);
      const DeviceMatrix<S> device_x(rows, width, x), y(rows, width);
      const DeviceArray<float> device_weight(weight), device_bias(bias);
      const DeviceMatrix<float> statistics(rows, {2, 3});
      ASSERT_EQ(LayerNormForward(device_x.constant(), device_weight.data(),
                                 device_bias.data(), y.view(),
                                 statistics.view(), nullptr),
                cudaSuccess);
      const Reference reference =
          Normalize(ToDoubles(x), cols, ToDoubles(weight), ToDoubles(bias));
      y.ExpectNear(reference.y, StoredWithin<S>(kAbsolute));
      statistics.ExpectNear(reference.statistics, {1e-6, 1e-5});
    }
  }
}

TYPED_TEST(CudaLayerNorm, ForwardWorksInPlaceWithoutStatistics) {
  using S = TypeParam;
  const Width width = {37, 40};
  const std::vector<S> x = RandomStored<S>(5 * 37, 1);
  const auto weight = RandomStored<float>(37, 2);
  const auto bias = RandomStored<float>(37, 3);
  const DeviceMatrix<S> y(5, width, x);
  const DeviceArray<float> device_weight(weight), device_bias(bias);
  ASSERT_EQ(
      LayerNormForward(y.constant(), device_weight.data(), device_bias.data(),
                       y.view(), Matrix<float>(), nullptr),
      cudaSuccess);
  y.ExpectNear(
      Normalize(ToDoubles(x), 37, ToDoubles(weight), ToDoubles(bias)).y,
      StoredWithin<S>(kAbsolute));
}

// x, its statistics and dy on the device, and the gradients in double.
template <typename S>
struct BackwardCase {
  BackwardCase(int64_t rows, Width width)
      : rows(rows),
        width(width),
        x(RandomStored<S>(rows * width.cols, 1, 2.0f)),
        dy(RandomStored<S>(rows * width.cols, 4)),
        weight(RandomStored<float>(width.cols, 2)),
        reference(Normalize(ToDoubles(x), width.cols, ToDoubles(weight),
                            Doubles(width.cols))),
        device_x(rows, width, x),
        device_dy(rows, width, dy),
        statistics(rows, {2, 2},
                   std::vector<float>(reference.statistics.begin(),
                                      reference.statistics.end())),
        device_weight(weight) {}

  Doubles DX() const {
    const int64_t cols = width.cols;
    Doubles dx;
    for (int64_t r = 0; r < rows; ++r) {
      const double* hat = &reference.hat[r * cols];
      double mean = 0, product = 0;
      Doubles dhat;
      for (int64_t j = 0; j < cols; ++j) {
        dhat.push_back(emulation::ToDouble(dy[r * cols + j]) * weight[j]);
        mean += dhat[j] / cols;
        product += dhat[j] * hat[j] / cols;
      }
      for (int64_t j = 0; j < cols; ++j) {
        dx.push_back(reference.statistics[2 * r + 1] *
                     (dhat[j] - mean - hat[j] * product));
      }
    }
    return dx;
  }

  cudaError_t Run(Matrix<S> dx, Destination destination, float* dweight,
                  float* dbias) const {
    return LayerNormBackward(device_x.constant(), statistics.constant(),
                             device_weight.data(), device_dy.constant(), dx,
                             destination, dweight, dbias, nullptr);
  }

  int64_t rows;
  Width width;
  std::vector<S> x, dy;
  std::vector<float> weight;
  Reference reference;
  DeviceMatrix<S> device_x, device_dy;
  DeviceMatrix<float> statistics;
  DeviceArray<float> device_weight;
};

TYPED_TEST(CudaLayerNorm, BackwardGivesAllGradients) {
  using S = TypeParam;
  for (const Width& width : kWidths) {
    for (const int64_t rows : {0, 1, 11}) {
      const BackwardCase<S> test(rows, width);
      const DeviceMatrix<S> dx(rows, width);
      const DeviceMatrix<float> dweight(1, {width.cols, width.cols});
      const DeviceMatrix<float> dbias(1, {width.cols, width.cols});
      ASSERT_EQ(test.Run(dx.view(), Destination::kOverwrite,
                         dweight.view().data, dbias.view().data),
                cudaSuccess);
      // A single column has x^ = 0 and 1/stddev about 300.
      dx.ExpectNear(test.DX(), StoredWithin<S>(width.cols == 1 ? 1e-3 : 2e-5));
      Doubles expected_dweight(width.cols), expected_dbias(width.cols);
      for (size_t i = 0; i < test.dy.size(); ++i) {
        const double dy = emulation::ToDouble(test.dy[i]);
        expected_dweight[i % width.cols] += dy * test.reference.hat[i];
        expected_dbias[i % width.cols] += dy;
      }
      dweight.ExpectNear(expected_dweight, {1e-5});
      dbias.ExpectNear(expected_dbias, {1e-5});
    }
  }
}

TYPED_TEST(CudaLayerNorm, BackwardAccumulatesIntoDX) {
  using S = TypeParam;
  const BackwardCase<S> test(3, {64, 64});
  const std::vector<S> before = RandomStored<S>(3 * 64, 9);
  const DeviceMatrix<S> dx(3, {64, 64}, before);
  ASSERT_EQ(test.Run(dx.view(), Destination::kAccumulate, nullptr, nullptr),
            cudaSuccess);
  Doubles expected = test.DX();
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] += emulation::ToDouble(before[i]);
  }
  dx.ExpectNear(expected, StoredWithin<S>(2e-5));
}

TYPED_TEST(CudaLayerNorm, BackwardMayOverwriteDY) {
  using S = TypeParam;
  const BackwardCase<S> test(3, {64, 64});
  const DeviceMatrix<float> dbias(1, {64, 64});
  ASSERT_EQ(test.Run(test.device_dy.view(), Destination::kOverwrite, nullptr,
                     dbias.view().data),
            cudaSuccess);
  test.device_dy.ExpectNear(test.DX(), StoredWithin<S>(2e-5));
  Doubles expected(64);
  for (size_t i = 0; i < test.dy.size(); ++i) {
    expected[i % 64] += emulation::ToDouble(test.dy[i]);
  }
  dbias.ExpectNear(expected, {1e-5});
}

// The sums over rows: blocks of kRowBlock, more than one.
TEST(CudaLayerNormSums, CoverAllRowBlocks) {
  const BackwardCase<float> test(2 * kRowBlock + 5, {3, 3});
  const DeviceMatrix<float> dweight(1, {3, 3});
  ASSERT_EQ(test.Run({}, Destination::kOverwrite, dweight.view().data, nullptr),
            cudaSuccess);
  Doubles expected(3);
  for (size_t i = 0; i < test.dy.size(); ++i) {
    expected[i % 3] += static_cast<double>(test.dy[i]) * test.reference.hat[i];
  }
  dweight.ExpectNear(expected, {1e-3});
}

}  // namespace
}  // namespace recurve::cuda
