// A GPU as a device: kernels of this folder, cuBLASLt for products, one stream.
#ifndef RECURVE_KERNELS_CUDA_BACKEND_H_
#define RECURVE_KERNELS_CUDA_BACKEND_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/cuda/settings.h"

namespace recurve {

struct CudaBackendOptions {
  // Less precise products are faster where a GPU has units for them.
  cuda::ProductPrecision precision = cuda::ProductPrecision::kFp32;
};

// The GPU that CUDA counts as `ordinal`. Takes cuda::kWorkspaceBytes of its
// memory and some pinned memory of the host; CUDA's own context and libraries
// take more, outside any plan. Several backends may share a GPU: each has a
// stream of its own. May be used by one thread at a time, its buffers and
// recordings released by any, before the backend.
//
// Results are a pure function of the arguments' bits, but a sequence's forward
// results may differ by rounding with the batch that it is part of, and sums
// over rows have orders of their own (docs/determinism.md, "On a GPU").
//
// While Replay captures, Allocate, Upload, Download, Synchronize and
// SumOfSquares return FailedPrecondition.
//
// Errors: Unavailable without that GPU, a driver or code for the GPU,
// ResourceExhausted if its memory is taken, Internal if a library fails.
absl::StatusOr<std::unique_ptr<Backend>> CreateCudaBackend(
    int ordinal, const CudaBackendOptions& options = CudaBackendOptions());

}  // namespace recurve

#endif  // RECURVE_KERNELS_CUDA_BACKEND_H_
