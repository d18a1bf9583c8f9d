// A Backend that passes every call on to another: a base for backends that
// count, limit or fail something.
#ifndef RECURVE_KERNELS_FORWARDING_BACKEND_H_
#define RECURVE_KERNELS_FORWARDING_BACKEND_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"

namespace recurve {

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> to)
      : to_(std::move(to)) {}

  absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(
      int64_t bytes) override {
    return to_->Allocate(bytes);
  }
  absl::Status Upload(void* device, const void* host, int64_t bytes) override {
    return to_->Upload(device, host, bytes);
  }
  absl::Status Download(void* host, const void* device,
                        int64_t bytes) override {
    return to_->Download(host, device, bytes);
  }
  absl::Status Copy(void* to, const void* from, int64_t bytes) override {
    return to_->Copy(to, from, bytes);
  }
  absl::Status Zero(void* data, int64_t bytes) override {
    return to_->Zero(data, bytes);
  }

  absl::Status SruForward(const SruForwardArgs<float>& args) override {
    return to_->SruForward(args);
  }
  absl::Status SruBackward(const SruBackwardArgs<float>& args) override {
    return to_->SruBackward(args);
  }
  absl::Status QrnnForward(const QrnnForwardArgs<float>& args) override {
    return to_->QrnnForward(args);
  }
  absl::Status QrnnBackward(const QrnnBackwardArgs<float>& args) override {
    return to_->QrnnBackward(args);
  }
  absl::Status LinearForward(const LinearForwardArgs<float>& args) override {
    return to_->LinearForward(args);
  }
  absl::Status LinearBackward(const LinearBackwardArgs<float>& args) override {
    return to_->LinearBackward(args);
  }
  absl::Status EmbeddingForward(
      const EmbeddingForwardArgs<float>& args) override {
    return to_->EmbeddingForward(args);
  }
  absl::Status EmbeddingBackward(
      const EmbeddingBackwardArgs<float>& args) override {
    return to_->EmbeddingBackward(args);
  }
  absl::Status PoolForward(const PoolArgs<float>& args) override {
    return to_->PoolForward(args);
  }
  absl::Status PoolBackward(const PoolArgs<float>& args) override {
    return to_->PoolBackward(args);
  }
  absl::Status CrossEntropy(const CrossEntropyArgs<float>& args) override {
    return to_->CrossEntropy(args);
  }
  absl::Status SquaredError(const SquaredErrorArgs<float>& args) override {
    return to_->SquaredError(args);
  }
  absl::Status Softmax(Matrix<float> logits) override {
    return to_->Softmax(logits);
  }

  absl::Status FillMask(const MaskArgs& args) override {
    return to_->FillMask(args);
  }
  absl::Status Multiply(Matrix<float> x, Matrix<const float> mask) override {
    return to_->Multiply(x, mask);
  }
  absl::Status Add(float* to, const float* from, int64_t count) override {
    return to_->Add(to, from, count);
  }
  absl::StatusOr<double> SumOfSquares(const float* data,
                                      int64_t count) override {
    return to_->SumOfSquares(data, count);
  }
  absl::Status Update(const OptimizerArgs& args) override {
    return to_->Update(args);
  }

 private:
  std::unique_ptr<Backend> to_;
};

}  // namespace recurve

#endif  // RECURVE_KERNELS_FORWARDING_BACKEND_H_
