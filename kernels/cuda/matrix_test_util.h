// Matrices on the emulated device, for tests of kernels that work on rows.
#ifndef RECURVE_KERNELS_CUDA_MATRIX_TEST_UTIL_H_
#define RECURVE_KERNELS_CUDA_MATRIX_TEST_UTIL_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/emulation/device_array.h"
#include "kernels/cuda/storage.cuh"
#include "kernels/storage.h"
#include "kernels/tensor.h"

namespace recurve::cuda {

using emulation::DeviceArray;
using emulation::Tolerance;
using Doubles = std::vector<double>;

using StorageTypes = ::testing::Types<float, BFloat16, Float16>;

// How far rounding to S moves a value, relative to it.
template <typename S>
inline constexpr double kUnitRoundoff = 0x1p-24;
template <>
inline constexpr double kUnitRoundoff<BFloat16> = 0x1p-8;
template <>
inline constexpr double kUnitRoundoff<Float16> = 0x1p-11;

// A result of float arithmetic, stored as S.
template <typename S>
Tolerance StoredWithin(double absolute) {
  return {absolute, 1.01 * kUnitRoundoff<S> + 0x1p-22};
}

// Uniform in [-bound, bound], as S holds them; the same for the same seed.
template <typename S>
std::vector<S> RandomStored(int64_t count, uint32_t seed, float bound = 1.0f) {
  std::mt19937 random(seed);
  std::vector<S> values(count);
  for (S& value : values) {
    const float unit = static_cast<float>(random() >> 8) * 0x1p-23f - 1.0f;
    value = FromFloat<S>(bound * unit);
  }
  return values;
}

template <typename T>
Doubles ToDoubles(const std::vector<T>& values) {
  Doubles doubles;
  for (const T& value : values) doubles.push_back(emulation::ToDouble(value));
  return doubles;
}

// How the columns of a matrix lie: the widths that vectors do and do not
// divide, rows at 16-byte boundaries or not, padding after them.
struct Width {
  int64_t cols;
  int64_t stride;
};
inline const std::vector<Width> kWidths = {{1, 1},   {33, 33}, {37, 40},
                                           {64, 64}, {64, 67}, {300, 304}};

// Of 64 columns, with and without rows at 16-byte boundaries.
inline constexpr Width kAligned = {64, 64}, kUnaligned = {64, 67};

// A [rows, width.cols] matrix in device memory.
template <typename T>
class DeviceMatrix {
 public:
  // Unwritten.
  DeviceMatrix(int64_t rows, Width width)
      : rows_(rows), width_(width), array_(rows * width.stride) {}
  DeviceMatrix(int64_t rows, Width width, const std::vector<T>& values)
      : DeviceMatrix(rows, width) {
    std::vector<T> padded = array_.Download();
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(values.begin() + r * width.cols, width.cols,
                  padded.begin() + r * width.stride);
    }
    array_.Upload(padded);
  }

  Matrix<T> view() const {
    return {array_.data(), rows_, width_.cols, width_.stride};
  }
  Matrix<const T> constant() const { return view(); }

  // The elements without padding, which must be as it was.
  std::vector<T> Download() const {
    const std::vector<T> padded = array_.Download();
    std::vector<T> values;
    for (int64_t i = 0; i < static_cast<int64_t>(padded.size()); ++i) {
      if (i % width_.stride < width_.cols) {
        values.push_back(padded[i]);
      } else {
        EXPECT_TRUE(Unwritten(padded[i]))
            << "padding of row " << i / width_.stride;
      }
    }
    return values;
  }

  // NaN is near NaN.
  void ExpectNear(const Doubles& expected, Tolerance tolerance) const {
    emulation::ExpectNear(DeviceArray<T>(Download()), expected, tolerance,
                          width_.cols);
  }
  // The bits.
  void ExpectSame(const std::vector<T>& expected) const {
    emulation::MarkCompared();
    const std::vector<T> actual = Download();
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_EQ(std::memcmp(&actual[i], &expected[i], sizeof(T)), 0)
          << "row " << i / width_.cols << ", column " << i % width_.cols
          << " is " << emulation::ToDouble(actual[i]) << ", expected "
          << emulation::ToDouble(expected[i]);
    }
  }

 private:
  static bool Unwritten(const T& element) {
    T unwritten;
    std::memset(&unwritten, 0xFF, sizeof(T));
    return std::memcmp(&element, &unwritten, sizeof(T)) == 0;
  }

  int64_t rows_;
  Width width_;
  DeviceArray<T> array_;
};

// A cut into sequences, in device memory and here.
class DeviceLayout {
 public:
  explicit DeviceLayout(const std::vector<int64_t>& lengths)
      : cu_seqlens(Sums(lengths)), device_(cu_seqlens) {}

  int64_t sequences() const { return cu_seqlens.size() - 1; }
  int64_t rows() const { return cu_seqlens.back(); }
  SequenceLayout view() const { return {sequences(), rows(), device_.data()}; }
  SequenceLayout on_host() const {
    return {sequences(), rows(), cu_seqlens.data()};
  }
  int64_t SequenceOf(int64_t row) const {
    int64_t b = 0;
    while (cu_seqlens[b + 1] <= row) ++b;
    return b;
  }

  const std::vector<int64_t> cu_seqlens;

 private:
  static std::vector<int64_t> Sums(const std::vector<int64_t>& lengths) {
    std::vector<int64_t> sums = {0};
    for (const int64_t length : lengths) sums.push_back(sums.back() + length);
    return sums;
  }

  DeviceArray<int64_t> device_;
};

inline const std::vector<std::vector<int64_t>> kLengths = {
    {1}, {0, 3, 1, 0, 5, 17, 0}, {0, 0}};

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_MATRIX_TEST_UTIL_H_
