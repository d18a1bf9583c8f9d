// Matrices for the tests of the recurrences, on the host and on the emulated
// device, and how their results are compared.
#ifndef RECURVE_KERNELS_CUDA_RECURRENCE_TEST_UTIL_H_
#define RECURVE_KERNELS_CUDA_RECURRENCE_TEST_UTIL_H_

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/reference_test_util.h"
#include "kernels/cuda/emulation/coverage.h"
#include "kernels/cuda/emulation/device_array.h"
#include "kernels/cuda/recurrence_plan.h"
#include "kernels/cuda/storage.cuh"
#include "kernels/storage.h"
#include "kernels/tensor.h"

namespace recurve::cuda {

using cpu::Near;
using cpu::Offsets;
using cpu::RandomValues;
using cpu::SameBits;
using cpu::Tensors;

// Around one warp's steps and around one turn of a scan's block, and longer.
inline const std::vector<int64_t> kScanLengths = {0,  1,  3,  4,  5,  31,
                                                  32, 33, 63, 64, 65, 100};

// How far rounding to S moves a value of magnitude 1.
template <typename S>
inline constexpr double kRounding = 0.0;
template <>
inline constexpr double kRounding<BFloat16> = 0x1p-8;
template <>
inline constexpr double kRounding<Float16> = 0x1p-11;

template <typename T>
T FromDouble(double value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(value);
  } else {
    return FromFloat<T>(static_cast<float>(value));
  }
}

// The values as S holds them.
template <typename S>
std::vector<double> Rounded(std::vector<double> values) {
  for (double& value : values) value = ToFloat(FromDouble<S>(value));
  return values;
}

// Host memory under the interface of emulation::DeviceArray.
template <typename T>
class HostArray {
 public:
  explicit HostArray(std::vector<T> values) : values_(std::move(values)) {}
  T* data() const { return const_cast<T*>(values_.data()); }
  std::vector<T> Download() const { return values_; }

 private:
  std::vector<T> values_;
};

template <typename T>
bool IsUntouched(const T& element) {
  T untouched;
  std::memset(&untouched, 0xFF, sizeof(T));
  return std::memcmp(&element, &untouched, sizeof(T)) == 0;
}

// A [rows, cols] matrix in an Array whose rows have padding after them, which
// must stay untouched. 16 elements, so that vectors stay aligned.
template <template <typename> class Array, typename T>
class TestMatrix {
 public:
  static constexpr int64_t kPadding = 16;

  // Unwritten where there are no values.
  TestMatrix(int64_t rows, int64_t cols, const std::vector<double>* values,
             int64_t padding = kPadding)
      : rows_(rows),
        cols_(cols),
        stride_(cols + padding),
        array_(Elements(values)) {}

  Matrix<T> view() const { return {array_.data(), rows_, cols_, stride_}; }

  // Every element; expects that all were written and the padding was not.
  std::vector<float> Read() const {
    const std::vector<T> elements = array_.Download();
    std::vector<float> values;
    int64_t unwritten = 0, outside = 0;
    for (int64_t i = 0; i < rows_ * stride_; ++i) {
      const bool untouched = IsUntouched(elements[i]);
      if (i % stride_ < cols_) {
        unwritten += untouched;
        values.push_back(ToFloat(elements[i]));
      } else {
        outside += !untouched;
      }
    }
    EXPECT_EQ(unwritten, 0) << "elements that nobody wrote";
    EXPECT_EQ(outside, 0) << "elements written outside of the matrix";
    return values;
  }

 private:
  std::vector<T> Elements(const std::vector<double>* values) const {
    std::vector<T> elements(rows_ * stride_);
    std::memset(elements.data(), 0xFF, elements.size() * sizeof(T));
    if (values == nullptr) return elements;
    EXPECT_EQ(static_cast<int64_t>(values->size()), rows_ * cols_);
    for (int64_t i = 0; i < rows_ * cols_; ++i) {
      elements[i / cols_ * stride_ + i % cols_] = FromDouble<T>((*values)[i]);
    }
    return elements;
  }

  int64_t rows_, cols_, stride_;
  Array<T> array_;
};

// Named matrices of activations (S) and of floats.
template <template <typename> class Array, typename S>
class TestMatrices {
 public:
  // Those of `tensors` are inputs; one that is not among them is absent.
  explicit TestMatrices(const Tensors& tensors) : tensors_(tensors) {}

  Matrix<S> GivenStored(const std::string& name, int64_t rows, int64_t cols) {
    return Given(stored_, name, rows, cols, kPadding);
  }
  Matrix<float> Given(const std::string& name, int64_t rows, int64_t cols) {
    return Given(floats_, name, rows, cols, kPadding);
  }
  float* GivenVector(const std::string& name, int64_t size) {
    return Given(floats_, name, 1, size, 0).data;
  }
  Matrix<S> UnwrittenStored(const std::string& name, int64_t rows,
                            int64_t cols) {
    return Add(stored_, name, rows, cols, nullptr, kPadding);
  }
  Matrix<float> Unwritten(const std::string& name, int64_t rows, int64_t cols) {
    return Add(floats_, name, rows, cols, nullptr, kPadding);
  }

  std::vector<float> operator[](const std::string& name) const {
    SCOPED_TRACE(name);
    const auto found = stored_.find(name);
    return found != stored_.end() ? found->second.Read()
                                  : floats_.at(name).Read();
  }

 private:
  static constexpr int64_t kPadding = TestMatrix<Array, S>::kPadding;
  template <typename T>
  using Map = std::map<std::string, TestMatrix<Array, T>>;

  template <typename T>
  Matrix<T> Given(Map<T>& map, const std::string& name, int64_t rows,
                  int64_t cols, int64_t padding) {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) return {};
    return Add(map, name, rows, cols, &found->second, padding);
  }
  template <typename T>
  Matrix<T> Add(Map<T>& map, const std::string& name, int64_t rows,
                int64_t cols, const std::vector<double>* values,
                int64_t padding) {
    map.erase(name);
    return map.emplace(name, TestMatrix<Array, T>(rows, cols, values, padding))
        .first->second.view();
  }

  const Tensors tensors_;
  Map<S> stored_;
  Map<float> floats_;
};

// Every way to cut the problem, if it were of another size.
std::vector<RecurrencePlan> PossiblePlans(const RecurrenceProblem& problem);

std::string Describe(const RecurrencePlan& plan);

// Values side by side: rows of `a` and `b` put together.
template <typename T>
std::vector<T> Beside(const std::vector<T>& a, int64_t a_cols,
                      const std::vector<T>& b, int64_t b_cols) {
  std::vector<T> rows;
  for (size_t row = 0; row < b.size() / b_cols; ++row) {
    rows.insert(rows.end(), a.begin() + row * a_cols,
                a.begin() + (row + 1) * a_cols);
    rows.insert(rows.end(), b.begin() + row * b_cols,
                b.begin() + (row + 1) * b_cols);
  }
  return rows;
}

// Rows [begin, end) of a matrix with `cols` columns.
template <typename T>
std::vector<T> RowsOf(const std::vector<T>& tensor, int64_t cols, int64_t begin,
                      int64_t end) {
  return {tensor.begin() + begin * cols, tensor.begin() + end * cols};
}

// The sum of the rows.
std::vector<float> SumOfRows(const std::vector<float>& rows, int64_t cols);

// [size, size]: a product with it leaves every value as it is. The reference
// has the projection inside, the kernels do not.
std::vector<double> IdentityMatrix(int64_t size);

inline std::vector<double> ToDoubles(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

double Dot(const std::vector<double>& a, const std::vector<double>& b);

// Values of 0 and `kept`, three quarters of them kept.
std::vector<double> RandomMask(int64_t count, uint32_t seed, double kept);

// Expects of `data`, which one of problem's arrays begins at, that wide
// accesses need its alignment. `problem` describes the arrays as they are when
// called.
template <typename T, typename Problem>
void ExpectAlignmentCounts(T*& data, const Problem& problem) {
  const int wide = static_cast<int>(16 / problem().element_bytes);
  EXPECT_TRUE(MayVectorize(problem(), wide));
  ++data;
  EXPECT_FALSE(MayVectorize(problem(), wide));
  --data;
}

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_RECURRENCE_TEST_UTIL_H_
