// Arrays of device memory for tests of kernels, and comparisons with a
// reference.
//
//   DeviceArray<float> x(values);          // a copy of a host vector
//   DeviceArray<float> y(rows * columns);  // unwritten: every byte 0xFF
//   ASSERT_EQ(Scale(Args{x.data(), y.data()}, nullptr), cudaSuccess);
//   ExpectNear(y, expected, {.relative = 1e-6}, columns);
//
// A comparison counts for all kernels that have run since the last one
// (coverage.h): compare every output.
#ifndef RECURVE_KERNELS_CUDA_EMULATION_DEVICE_ARRAY_H_
#define RECURVE_KERNELS_CUDA_EMULATION_DEVICE_ARRAY_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cuda/emulation/coverage.h"
#include "kernels/cuda/emulation/runtime_api.h"
#include "kernels/storage.h"

namespace recurve::cuda::emulation {

// Its own allocation on the device that is current when it is made, of exactly
// the elements' size. An empty array has no memory: data() is null.
template <typename T>
class DeviceArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit DeviceArray(size_t size);
  explicit DeviceArray(const std::vector<T>& values);
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(DeviceArray&& other)
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  DeviceArray& operator=(DeviceArray&& other) {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  T* data() const { return data_; }
  size_t size() const { return size_; }

  // Waits for all work of the current device first.
  std::vector<T> Download() const;
  void Upload(const std::vector<T>& values);
  // Elements that hold what unwritten memory holds.
  size_t CountUntouched() const;

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

// |actual - expected| <= absolute + relative * |expected|.
struct Tolerance {
  double absolute = 0;
  double relative = 0;
};

// T: float, double, BFloat16, Float16 or an integer. A failure (of gtest,
// EXPECT) names the element that is furthest off and where it is; with columns,
// by row and column. An element that nobody has written is always off.
template <typename T, typename Reference>
void ExpectNear(const DeviceArray<T>& actual,
                const std::vector<Reference>& expected, Tolerance tolerance,
                size_t columns = 0);

// The same with a tolerance of 0.
template <typename T, typename Reference>
void ExpectEqual(const DeviceArray<T>& actual,
                 const std::vector<Reference>& expected, size_t columns = 0) {
  ExpectNear(actual, expected, Tolerance{}, columns);
}

double ToDouble(BFloat16 value);
double ToDouble(Float16 value);
template <typename T>
requires std::is_arithmetic_v<T>
double ToDouble(T value) { return static_cast<double>(value); }

// --- implementation ---

// A failure of the test unless error is cudaSuccess.
void ExpectSuccess(cudaError_t error, const char* what);
void ExpectNearValues(const std::vector<double>& actual,
                      const std::vector<double>& expected,
                      const std::vector<bool>& untouched, Tolerance tolerance,
                      size_t columns);
bool IsUntouched(const void* element, size_t bytes);

template <typename T>
DeviceArray<T>::DeviceArray(size_t size) : size_(size) {
  ExpectSuccess(cudaMalloc(&data_, size * sizeof(T)), "cudaMalloc");
}

template <typename T>
DeviceArray<T>::DeviceArray(const std::vector<T>& values)
    : DeviceArray(values.size()) {
  Upload(values);
}

template <typename T>
std::vector<T> DeviceArray<T>::Download() const {
  std::vector<T> values(size_);
  ExpectSuccess(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  ExpectSuccess(cudaMemcpy(values.data(), data_, size_ * sizeof(T),
                           cudaMemcpyDeviceToHost),
                "cudaMemcpy");
  return values;
}

template <typename T>
void DeviceArray<T>::Upload(const std::vector<T>& values) {
  ExpectSuccess(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  ExpectSuccess(cudaMemcpy(data_, values.data(), size_ * sizeof(T),
                           cudaMemcpyHostToDevice),
                "cudaMemcpy");
}

template <typename T>
size_t DeviceArray<T>::CountUntouched() const {
  size_t count = 0;
  for (const T& element : Download()) {
    count += IsUntouched(&element, sizeof(T));
  }
  return count;
}

template <typename T, typename Reference>
void ExpectNear(const DeviceArray<T>& actual,
                const std::vector<Reference>& expected, Tolerance tolerance,
                size_t columns) {
  MarkCompared();
  std::vector<double> values;
  std::vector<bool> untouched;
  for (const T& element : actual.Download()) {
    values.push_back(ToDouble(element));
    untouched.push_back(!std::is_integral_v<T> &&
                        IsUntouched(&element, sizeof(T)));
  }
  std::vector<double> references;
  for (const Reference& element : expected) {
    references.push_back(ToDouble(element));
  }
  ExpectNearValues(values, references, untouched, tolerance, columns);
}

}  // namespace recurve::cuda::emulation

#endif  // RECURVE_KERNELS_CUDA_EMULATION_DEVICE_ARRAY_H_
