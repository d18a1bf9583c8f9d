// What a device must be able to do: whole layers, losses, optimizer updates and
// copies. One Backend object belongs to one device and is used by that device's
// thread alone. All pointers in argument structs are that device's memory.
//
// Results are a pure function of the arguments' bits and of the kind of device:
// the same for any number of threads and on every device of the kind. On a CPU
// a sequence's forward results do not depend on what it is batched with either,
// and sums over rows are cut into fixed blocks of kRowBlock and added in order;
// on a GPU the order of sums follows from the batch's shape
// (docs/determinism.md).
//
// Errors: InvalidArgument for shapes that contradict each other (a bug of the
// caller, not of a user), Internal for a failing library. The data is not
// validated: token ids and cu_seqlens must be in range.
#ifndef RECURVE_KERNELS_BACKEND_H_
#define RECURVE_KERNELS_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cell_args.h"
#include "kernels/mask_args.h"
#include "kernels/optimizer_args.h"
#include "kernels/precision.h"
#include "kernels/tensor.h"

namespace recurve {

// Device memory, released on destruction.
class DeviceBuffer {
 public:
  virtual ~DeviceBuffer() = default;
  virtual void* data() const = 0;  // aligned to kAlignment
  virtual int64_t bytes() const = 0;
};

// What Backend::Replay keeps between calls. Belongs to the backend's thread and
// goes before the backend does.
class Recording {
 public:
  virtual ~Recording() = default;
};

// Operations may return before they are done: they happen in the order given,
// and only Download, SumOfSquares and Synchronize wait for them. Host memory
// given to Upload may be reused as soon as it returns. A failure of the device
// may so come back from a later call.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(
      int64_t bytes) = 0;
  virtual absl::Status Upload(void* device, const void* host,
                              int64_t bytes) = 0;
  virtual absl::Status Download(void* host, const void* device,
                                int64_t bytes) = 0;
  virtual absl::Status Copy(void* to, const void* from, int64_t bytes) = 0;
  virtual absl::Status Zero(void* data, int64_t bytes) = 0;
  // Waits until everything given before is done.
  virtual absl::Status Synchronize() = 0;

  // Does `operations`, or repeats what they issued in an earlier call with this
  // `recording` (null at first) without calling them. So they must be the same
  // operations with the same arguments every time, and must not allocate,
  // upload, download or wait.
  virtual absl::Status Replay(std::unique_ptr<Recording>& recording,
                              absl::FunctionRef<absl::Status()> operations) = 0;

  // Bytes of a projection packed for this device's products, a multiple of
  // kAlignment; 0 where it has no use for that.
  virtual int64_t PackedBytes(const ProjectionShape& projection,
                              Precision precision) const {
    (void)projection, (void)precision;
    return 0;
  }
  // Packs weights [depth, D*K*H] to `to`, PackedBytes of them, which a
  // PackedProjection then points to. InvalidArgument if depth is more terms
  // than it can add at the precision.
  virtual absl::Status Pack(const ProjectionShape& projection,
                            Precision precision, Matrix<const float> weights,
                            std::byte* to) {
    (void)projection, (void)precision, (void)weights, (void)to;
    return absl::UnimplementedError("this device packs no weights");
  }

  virtual absl::Status SruForward(const SruForwardArgs<float>& args) = 0;
  virtual absl::Status SruBackward(const SruBackwardArgs<float>& args) = 0;
  virtual absl::Status QrnnForward(const QrnnForwardArgs<float>& args) = 0;
  virtual absl::Status QrnnBackward(const QrnnBackwardArgs<float>& args) = 0;
  virtual absl::Status LinearForward(const LinearForwardArgs<float>& args) = 0;
  virtual absl::Status LinearBackward(
      const LinearBackwardArgs<float>& args) = 0;
  virtual absl::Status EmbeddingForward(
      const EmbeddingForwardArgs<float>& args) = 0;
  virtual absl::Status EmbeddingBackward(
      const EmbeddingBackwardArgs<float>& args) = 0;
  virtual absl::Status PoolForward(const PoolArgs<float>& args) = 0;
  virtual absl::Status PoolBackward(const PoolArgs<float>& args) = 0;
  virtual absl::Status CopyRows(const CopyRowsArgs& args) = 0;
  virtual absl::Status CrossEntropy(const CrossEntropyArgs<float>& args) = 0;
  virtual absl::Status SquaredError(const SquaredErrorArgs<float>& args) = 0;
  // Softmax of each row, in place.
  virtual absl::Status Softmax(Matrix<float> logits) = 0;

  virtual absl::Status FillMask(const MaskArgs& args) = 0;
  // x[i] *= mask[i], both [rows, cols].
  virtual absl::Status Multiply(Matrix<float> x, Matrix<const float> mask) = 0;
  // to[i] += from[i].
  virtual absl::Status Add(float* to, const float* from, int64_t count) = 0;
  // Sum of squares in double, over fixed blocks added in order.
  virtual absl::StatusOr<double> SumOfSquares(const float* data,
                                              int64_t count) = 0;
  virtual absl::Status Update(const OptimizerArgs& args) = 0;
};

}  // namespace recurve

#endif  // RECURVE_KERNELS_BACKEND_H_
