// A Backend that passes every operation on to another: a base for backends that
// count, limit or fail something.
#ifndef RECURVE_KERNELS_FORWARDING_BACKEND_H_
#define RECURVE_KERNELS_FORWARDING_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/status.h"

namespace recurve {

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> to)
      : owned_(std::move(to)), to_(owned_.get()) {}
  // `to` outlives this backend.
  explicit ForwardingBackend(Backend& to) : to_(&to) {}

  absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(
      int64_t bytes) override {
    RETURN_IF_ERROR(Before("Allocate"));
    return to_->Allocate(bytes);
  }
  absl::Status Upload(void* device, const void* host, int64_t bytes) override {
    RETURN_IF_ERROR(Before("Upload"));
    return to_->Upload(device, host, bytes);
  }
  absl::Status Download(void* host, const void* device,
                        int64_t bytes) override {
    RETURN_IF_ERROR(Before("Download"));
    return to_->Download(host, device, bytes);
  }
  absl::Status Copy(void* to, const void* from, int64_t bytes) override {
    RETURN_IF_ERROR(Before("Copy"));
    return to_->Copy(to, from, bytes);
  }
  absl::Status Zero(void* data, int64_t bytes) override {
    RETURN_IF_ERROR(Before("Zero"));
    return to_->Zero(data, bytes);
  }
  absl::Status Synchronize() override {
    RETURN_IF_ERROR(Before("Synchronize"));
    return to_->Synchronize();
  }
  absl::Status Replay(std::unique_ptr<Recording>& recording,
                      absl::FunctionRef<absl::Status()> operations) override {
    RETURN_IF_ERROR(Before("Replay"));
    return to_->Replay(recording, operations);
  }

  int64_t PackedBytes(const ProjectionShape& projection,
                      Precision precision) const override {
    return to_->PackedBytes(projection, precision);
  }
  absl::Status Pack(const ProjectionShape& projection, Precision precision,
                    Matrix<const float> weights, std::byte* to) override {
    RETURN_IF_ERROR(Before("Pack"));
    return to_->Pack(projection, precision, weights, to);
  }
  absl::Status SruForward(const SruForwardArgs<float>& args) override {
    RETURN_IF_ERROR(Before("SruForward"));
    return to_->SruForward(args);
  }
  absl::Status SruBackward(const SruBackwardArgs<float>& args) override {
    RETURN_IF_ERROR(Before("SruBackward"));
    return to_->SruBackward(args);
  }
  absl::Status QrnnForward(const QrnnForwardArgs<float>& args) override {
    RETURN_IF_ERROR(Before("QrnnForward"));
    return to_->QrnnForward(args);
  }
  absl::Status QrnnBackward(const QrnnBackwardArgs<float>& args) override {
    RETURN_IF_ERROR(Before("QrnnBackward"));
    return to_->QrnnBackward(args);
  }
  absl::Status LinearForward(const LinearForwardArgs<float>& args) override {
    RETURN_IF_ERROR(Before("LinearForward"));
    return to_->LinearForward(args);
  }
  absl::Status LinearBackward(const LinearBackwardArgs<float>& args) override {
    RETURN_IF_ERROR(Before("LinearBackward"));
    return to_->LinearBackward(args);
  }
  absl::Status EmbeddingForward(
      const EmbeddingForwardArgs<float>& args) override {
    RETURN_IF_ERROR(Before("EmbeddingForward"));
    return to_->EmbeddingForward(args);
  }
  absl::Status EmbeddingBackward(
      const EmbeddingBackwardArgs<float>& args) override {
    RETURN_IF_ERROR(Before("EmbeddingBackward"));
    return to_->EmbeddingBackward(args);
  }
  absl::Status PoolForward(const PoolArgs<float>& args) override {
    RETURN_IF_ERROR(Before("PoolForward"));
    return to_->PoolForward(args);
  }
  absl::Status PoolBackward(const PoolArgs<float>& args) override {
    RETURN_IF_ERROR(Before("PoolBackward"));
    return to_->PoolBackward(args);
  }
  absl::Status CopyRows(const CopyRowsArgs& args) override {
    RETURN_IF_ERROR(Before("CopyRows"));
    return to_->CopyRows(args);
  }
  absl::Status CrossEntropy(const CrossEntropyArgs<float>& args) override {
    RETURN_IF_ERROR(Before("CrossEntropy"));
    return to_->CrossEntropy(args);
  }
  absl::Status SquaredError(const SquaredErrorArgs<float>& args) override {
    RETURN_IF_ERROR(Before("SquaredError"));
    return to_->SquaredError(args);
  }
  absl::Status Softmax(Matrix<float> logits) override {
    RETURN_IF_ERROR(Before("Softmax"));
    return to_->Softmax(logits);
  }

  absl::Status FillMask(const MaskArgs& args) override {
    RETURN_IF_ERROR(Before("FillMask"));
    return to_->FillMask(args);
  }
  absl::Status Multiply(Matrix<float> x, Matrix<const float> mask) override {
    RETURN_IF_ERROR(Before("Multiply"));
    return to_->Multiply(x, mask);
  }
  absl::Status Add(float* to, const float* from, int64_t count) override {
    RETURN_IF_ERROR(Before("Add"));
    return to_->Add(to, from, count);
  }
  absl::StatusOr<double> SumOfSquares(const float* data,
                                      int64_t count) override {
    RETURN_IF_ERROR(Before("SumOfSquares"));
    return to_->SumOfSquares(data, count);
  }
  absl::Status Update(const OptimizerArgs& args) override {
    RETURN_IF_ERROR(Before("Update"));
    return to_->Update(args);
  }

 protected:
  // Comes before each operation, with the method's name; an error is returned
  // instead of doing it.
  virtual absl::Status Before(const char* /*operation*/) {
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<Backend> owned_;
  Backend* const to_;
};

}  // namespace recurve

#endif  // RECURVE_KERNELS_FORWARDING_BACKEND_H_
