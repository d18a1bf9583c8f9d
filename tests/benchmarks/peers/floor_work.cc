#include <omp.h>

#include <cstring>
#include <memory>
#include <vector>

#include "kernels/cpu/gemm.h"
#include "kernels/status.h"
#include "kernels/tensor.h"
#include "tests/benchmarks/peers/on_device.h"
#include "tests/benchmarks/peers/random_floats.h"
#include "tests/benchmarks/peers/work.h"

namespace recurve::peers {
namespace {

// Columns of a layer's projection over its hidden size, SRU's and QRNN's.
constexpr int64_t kGates = 3;

class Products : public Work {
 public:
  Products(DeviceWorker& device, Kind kind, const Shape& shape)
      : device_(device),
        training_(kind == Kind::kTraining),
        x_(New(shape.rows(), shape.hidden)),
        u_(New(shape.rows(), kGates * shape.hidden)) {
    for (int64_t l = 0; l < shape.layers; ++l) {
      weights_.push_back(New(shape.hidden, kGates * shape.hidden));
    }
    if (!training_) return;
    dx_ = New(shape.rows(), shape.hidden);
    dw_ = New(shape.hidden, kGates * shape.hidden);
  }

  absl::Status Run(int64_t turns) override {
    return OnDevice(device_, [&](Backend&) {
      omp_set_num_threads(device_.spec().threads);
      for (int64_t turn = 0; turn < turns; ++turn) RETURN_IF_ERROR(RunOnce());
      return absl::OkStatus();
    });
  }

 private:
  Matrix<float> New(int64_t rows, int64_t cols) {
    buffers_.push_back(RandomFloats(rows * cols, buffers_.size()));
    return {buffers_.back().data(), rows, cols};
  }

  absl::Status RunOnce() {
    for (const Matrix<float>& w : weights_) {
      RETURN_IF_ERROR(cpu::MatMul(x_, w, u_));
    }
    if (!training_) return absl::OkStatus();
    for (size_t l = weights_.size(); l-- > 0;) {
      RETURN_IF_ERROR(cpu::MatMul(Transposed(x_), u_, dw_));
      if (l == 0) break;  // nobody asks for the gradient of the features
      RETURN_IF_ERROR(cpu::MatMul(u_, Transposed(weights_[l]), dx_));
    }
    return absl::OkStatus();
  }

  DeviceWorker& device_;
  const bool training_;
  std::vector<std::vector<float>> buffers_;
  const Matrix<float> x_, u_;
  std::vector<Matrix<float>> weights_;
  Matrix<float> dx_, dw_;
};

class Copy : public Work {
 public:
  Copy(DeviceWorker& device, int64_t moved_bytes)
      : device_(device), from_(moved_bytes / 2, 1), to_(moved_bytes / 2) {}

  absl::Status Run(int64_t turns) override {
    return OnDevice(device_, [&](Backend&) {
      omp_set_num_threads(device_.spec().threads);
      for (int64_t turn = 0; turn < turns; ++turn) CopyOnce();
      return absl::OkStatus();
    });
  }

 private:
  void CopyOnce() {
#pragma omp parallel
    {
      const size_t threads = omp_get_num_threads();
      const size_t thread = omp_get_thread_num();
      const size_t begin = from_.size() * thread / threads;
      const size_t end = from_.size() * (thread + 1) / threads;
      std::memcpy(to_.data() + begin, from_.data() + begin, end - begin);
    }
  }

  DeviceWorker& device_;
  const std::vector<char> from_;
  std::vector<char> to_;
};

}  // namespace

std::unique_ptr<Work> ProductsWork(DevicePool& pool, Kind kind,
                                   const Shape& shape) {
  return std::make_unique<Products>(pool.device(0), kind, shape);
}

std::unique_ptr<Work> CopyWork(DevicePool& pool, int64_t moved_bytes) {
  return std::make_unique<Copy>(pool.device(0), moved_bytes);
}

}  // namespace recurve::peers
