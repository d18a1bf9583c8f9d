#include "kernels/cuda/backend.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kernels/args_check.h"
#include "kernels/cuda/copy_rows.h"
#include "kernels/cuda/devices.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/embedding.h"
#include "kernels/cuda/layer_parts.h"
#include "kernels/cuda/loss.h"
#include "kernels/cuda/mask.h"
#include "kernels/cuda/memory.h"
#include "kernels/cuda/optimizer.h"
#include "kernels/cuda/pool.h"
#include "kernels/cuda/portable.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/recording.h"
#include "kernels/cuda/staging.h"
#include "kernels/cuda/status.h"
#include "kernels/layers/linear.h"
#include "kernels/layers/qrnn.h"
#include "kernels/layers/sru.h"
#include "kernels/status.h"

namespace recurve {
namespace cuda {
namespace {

// A stream that does not wait for the work of others.
class Stream {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  ~Stream() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }
  absl::Status Create() {
    return ToStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                    "cudaStreamCreateWithFlags");
  }
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// The workspace: what products use, then the scratch of sums.
constexpr int64_t kSumsBytes = (kSquaresPartials + 1) * sizeof(double);
static_assert(kProductWorkspaceBytes + kSumsBytes <= kWorkspaceBytes);

class CudaBackend : public Backend {
 public:
  explicit CudaBackend(int ordinal) : ordinal_(ordinal) {}

  ~CudaBackend() override {
    cudaSetDevice(ordinal_);
    if (stream_.get() != nullptr) cudaStreamSynchronize(stream_.get());
  }

  absl::Status Create(const CudaBackendOptions& options) {
    RETURN_IF_ERROR(UseDevice());
    RETURN_IF_ERROR(stream_.Create());
    ASSIGN_OR_RETURN(workspace_, AllocateOn(ordinal_, kWorkspaceBytes));
    ASSIGN_OR_RETURN(staging_, Staging::Create(stream_.get()));
    ASSIGN_OR_RETURN(products_, CreateProducts(stream_.get(), options.precision,
                                               workspace_->data()));
    recorder_.emplace(stream_.get());
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(
      int64_t bytes) override {
    RETURN_IF_ERROR(NotWhileCapturing("Allocate"));
    return AllocateOn(ordinal_, bytes);
  }
  absl::Status Upload(void* device, const void* host, int64_t bytes) override {
    RETURN_IF_ERROR(NotWhileCapturing("Upload"));
    RETURN_IF_ERROR(UseDevice());
    return staging_->Upload(device, host, bytes);
  }
  absl::Status Download(void* host, const void* device,
                        int64_t bytes) override {
    RETURN_IF_ERROR(NotWhileCapturing("Download"));
    RETURN_IF_ERROR(UseDevice());
    return staging_->Download(host, device, bytes);
  }
  absl::Status Copy(void* to, const void* from, int64_t bytes) override {
    if (bytes <= 0) return absl::OkStatus();
    return Do("Copy", [&] {
      return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                             stream_.get());
    });
  }
  absl::Status Zero(void* data, int64_t bytes) override {
    if (bytes <= 0) return absl::OkStatus();
    return Do("Zero",
              [&] { return cudaMemsetAsync(data, 0, bytes, stream_.get()); });
  }
  absl::Status Synchronize() override {
    RETURN_IF_ERROR(NotWhileCapturing("Synchronize"));
    return Do("Synchronize",
              [&] { return cudaStreamSynchronize(stream_.get()); });
  }
  absl::Status Replay(std::unique_ptr<Recording>& recording,
                      absl::FunctionRef<absl::Status()> operations) override {
    RETURN_IF_ERROR(UseDevice());
    return recorder_->Replay(recording, operations);
  }

  absl::Status SruForward(const SruForwardArgs<float>& args) override {
    return WithParts(
        [&](auto& parts) { return layers::SruForward(parts, args); });
  }
  absl::Status SruBackward(const SruBackwardArgs<float>& args) override {
    return WithParts(
        [&](auto& parts) { return layers::SruBackward(parts, args); });
  }
  absl::Status QrnnForward(const QrnnForwardArgs<float>& args) override {
    return WithParts(
        [&](auto& parts) { return layers::QrnnForward(parts, args); });
  }
  absl::Status QrnnBackward(const QrnnBackwardArgs<float>& args) override {
    return WithParts(
        [&](auto& parts) { return layers::QrnnBackward(parts, args); });
  }
  absl::Status LinearForward(const LinearForwardArgs<float>& args) override {
    return WithParts(
        [&](auto& parts) { return layers::LinearForward(parts, args); });
  }
  absl::Status LinearBackward(const LinearBackwardArgs<float>& args) override {
    return WithParts(
        [&](auto& parts) { return layers::LinearBackward(parts, args); });
  }

  absl::Status EmbeddingForward(
      const EmbeddingForwardArgs<float>& args) override {
    RETURN_IF_ERROR(CheckEmbeddingForward(args));
    return Do("EmbeddingForward",
              [&] { return cuda::EmbeddingForward(args, stream_.get()); });
  }
  absl::Status EmbeddingBackward(
      const EmbeddingBackwardArgs<float>& args) override {
    RETURN_IF_ERROR(CheckEmbeddingBackward(args));
    return Do("EmbeddingBackward",
              [&] { return cuda::EmbeddingBackward(args, stream_.get()); });
  }
  absl::Status PoolForward(const PoolArgs<float>& args) override {
    RETURN_IF_ERROR(CheckPoolForward(args));
    return Do("PoolForward",
              [&] { return cuda::PoolForward(args, stream_.get()); });
  }
  absl::Status PoolBackward(const PoolArgs<float>& args) override {
    RETURN_IF_ERROR(CheckPoolBackward(args));
    return Do("PoolBackward",
              [&] { return cuda::PoolBackward(args, stream_.get()); });
  }
  absl::Status CopyRows(const CopyRowsArgs& args) override {
    RETURN_IF_ERROR(CheckCopyRows(args));
    return Do("CopyRows", [&] { return cuda::CopyRows(args, stream_.get()); });
  }
  absl::Status CrossEntropy(const CrossEntropyArgs<float>& args) override {
    RETURN_IF_ERROR(CheckCrossEntropy(args));
    return Do("CrossEntropy",
              [&] { return cuda::CrossEntropy(args, stream_.get()); });
  }
  absl::Status SquaredError(const SquaredErrorArgs<float>& args) override {
    RETURN_IF_ERROR(CheckSquaredError(args));
    return Do("SquaredError",
              [&] { return cuda::SquaredError(args, stream_.get()); });
  }
  absl::Status Softmax(Matrix<float> logits) override {
    return Do("Softmax", [&] { return cuda::Softmax(logits, stream_.get()); });
  }

  absl::Status FillMask(const MaskArgs& args) override {
    RETURN_IF_ERROR(CheckMask(args));
    return Do("FillMask", [&] { return cuda::FillMask(args, stream_.get()); });
  }
  absl::Status Multiply(Matrix<float> x, Matrix<const float> mask) override {
    RETURN_IF_ERROR(CheckMultiply(x, mask));
    return Do("Multiply",
              [&] { return cuda::Multiply(x, mask, stream_.get()); });
  }
  absl::Status Add(float* to, const float* from, int64_t count) override {
    RETURN_IF_ERROR(CheckCount("Add", count));
    return Do("Add", [&] { return cuda::Add(to, from, count, stream_.get()); });
  }
  absl::StatusOr<double> SumOfSquares(const float* data,
                                      int64_t count) override {
    RETURN_IF_ERROR(NotWhileCapturing("SumOfSquares"));
    RETURN_IF_ERROR(CheckCount("SumOfSquares", count));
    double* total = reinterpret_cast<double*>(
        static_cast<char*>(workspace_->data()) + kProductWorkspaceBytes);
    RETURN_IF_ERROR(Do("SumOfSquares", [&] {
      return cuda::SumOfSquares(data, count, /*partials=*/total + 1, total,
                                stream_.get());
    }));
    double result = 0;
    RETURN_IF_ERROR(staging_->Download(&result, total, sizeof(result)));
    return result;
  }
  absl::Status Update(const OptimizerArgs& args) override {
    RETURN_IF_ERROR(CheckUpdate(args));
    return Do("Update", [&] { return cuda::Update(args, stream_.get()); });
  }

 private:
  // A thread may have several backends; CUDA knows one current device.
  absl::Status UseDevice() const {
    return ToStatus(cudaSetDevice(ordinal_), "cudaSetDevice");
  }
  template <typename F>
  absl::Status Do(const char* operation, const F& start) const {
    RETURN_IF_ERROR(UseDevice());
    return ToStatus(start(), operation);
  }
  template <typename F>
  absl::Status WithParts(const F& layer) {
    RETURN_IF_ERROR(UseDevice());
    LayerParts<float> parts(*products_, stream_.get());
    return layer(parts);
  }
  absl::Status NotWhileCapturing(const char* operation) const {
    if (!recorder_->capturing()) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        operation, " among operations that Replay records: do it outside"));
  }

  const int ordinal_;
  // Destroyed from the last one up.
  Stream stream_;
  std::unique_ptr<DeviceBuffer> workspace_;
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<Products> products_;
  std::optional<Recorder> recorder_;
};

// Asks of the device before the first launch, which would fail with less to
// say. GetDeviceInfo has made it the current one.
absl::Status CheckKernels(int ordinal, const DeviceInfo& info) {
  const cudaError_t error = ProbeKernels();
  const absl::Status status = ToStatus(error, "cudaFuncGetAttributes");
  if (error != cudaErrorNoKernelImageForDevice &&
      error != cudaErrorUnsupportedPtxVersion) {
    return status;
  }
  return absl::UnavailableError(absl::StrCat(
      "cuda:", ordinal, " (", info.name, ", compute capability ",
      info.capability_major, ".", info.capability_minor,
      ") cannot run the kernels of this program: it was built for other GPUs, "
      "or for a newer driver; build it with --config=cuda_all, or update the "
      "driver (",
      status.message(), ")"));
}

}  // namespace
}  // namespace cuda

absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(
    int ordinal, const CudaBackendOptions& options) {
  ASSIGN_OR_RETURN(const cuda::DeviceInfo info, cuda::GetDeviceInfo(ordinal));
  RETURN_IF_ERROR(cuda::CheckKernels(ordinal, info));
  auto backend = std::make_unique<cuda::CudaBackend>(ordinal);
  RETURN_IF_ERROR(backend->Create(options));
  return backend;
}

}  // namespace recurve
