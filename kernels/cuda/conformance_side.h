// One of the two backends that are compared: its memory, filled alike on both.
#ifndef RECURVE_KERNELS_CUDA_CONFORMANCE_SIDE_H_
#define RECURVE_KERNELS_CUDA_CONFORMANCE_SIDE_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/tensor.h"

namespace recurve::cuda {

// An operation's result: rows of `stride` elements, what lies between the rows
// included.
struct Result {
  std::string name;
  int64_t cols = 0;
  int64_t stride = 0;
  std::vector<float> values;
};

// The first error of a copy or allocation aborts the program: there is nothing
// to compare then.
class Side {
 public:
  // Two sides with one seed that are asked for the same things hold the same
  // numbers.
  Side(Backend& backend, uint32_t seed) : backend_(backend), random_(seed) {}

  Backend& backend() { return backend_; }
  // The same numbers on both sides: [0, n).
  int64_t Draw(int64_t n) { return static_cast<int64_t>(random_() % n); }

  // Numbers in [-scale, scale]; rows may lie apart.
  Matrix<float> Input(int64_t rows, int64_t cols, float scale = 1.0f);
  // Zeros and `value`s.
  Matrix<float> Mask(int64_t rows, int64_t cols, float value);
  float* Vector(int64_t count, float scale = 1.0f);
  std::vector<int32_t> Draws(int64_t count, int64_t below);

  // Holds a number that nobody computes until it is written; compared later.
  Matrix<float> Output(const std::string& name, int64_t rows, int64_t cols);
  float* OutputVector(const std::string& name, int64_t count);
  // An input that is compared later.
  Matrix<float> Changed(const std::string& name, int64_t rows, int64_t cols,
                        float scale = 1.0f);
  // Is not compared: its contents are the backend's own affair.
  Matrix<float> Scratch(int64_t rows, int64_t cols);

  template <typename T>
  T* Upload(const std::vector<T>& values) {
    return static_cast<T*>(
        UploadBytes(values.data(), values.size() * sizeof(T)));
  }
  SequenceLayout Layout(const std::vector<int64_t>& lengths);

  // All outputs, in the order in which they were asked for.
  std::vector<Result> Results();

 private:
  struct Pending {
    std::string name;
    const float* data;
    int64_t rows, cols, stride;
  };

  void* UploadBytes(const void* data, int64_t bytes);
  // A matrix of `values`, made for rows and cols with a drawn stride.
  template <typename F>
  Matrix<float> Fill(int64_t rows, int64_t cols, const F& next);

  Backend& backend_;
  std::minstd_rand random_;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers_;
  std::vector<Pending> pending_;
};

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_CONFORMANCE_SIDE_H_
