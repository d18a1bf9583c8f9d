// Matrices in device memory for benchmarks: random numbers, never zeros, since
// hardware may be faster on those.
#ifndef RECURVE_TESTS_GPU_DEVICE_VALUES_H_
#define RECURVE_TESTS_GPU_DEVICE_VALUES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/tensor.h"

namespace recurve::gpu {

// Owns the memory. The first failure is kept in status(); what is asked for
// after it is absent.
class DeviceValues {
 public:
  explicit DeviceValues(Backend& backend) : backend_(backend) {}

  // Uniform in [-scale, scale]. S is float or BFloat16.
  template <typename S>
  Matrix<S> Random(int64_t rows, int64_t cols, float scale = 1.0f);
  // For results.
  template <typename S>
  Matrix<S> Output(int64_t rows, int64_t cols) {
    return {static_cast<S*>(Allocate(rows * cols * int64_t{sizeof(S)})), rows,
            cols};
  }
  // B sequences of T rows each.
  SequenceLayout EqualLengths(int64_t num_sequences, int64_t length);

  const absl::Status& status() const { return status_; }

 private:
  void* Allocate(int64_t bytes);
  void Upload(void* device, const void* host, int64_t bytes);

  Backend& backend_;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers_;
  absl::Status status_;
};

}  // namespace recurve::gpu

#endif  // RECURVE_TESTS_GPU_DEVICE_VALUES_H_
