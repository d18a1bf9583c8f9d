// Collectives between GPUs by NCCL, in builds with CUDA.
#ifndef RECURVE_KERNELS_COMM_NCCL_H_
#define RECURVE_KERNELS_COMM_NCCL_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/communicator.h"

namespace recurve {

// One rank for each GPU, in the order given; no GPU twice, which NCCL refuses
// (CreateLocalCommunicators copies instead). A collective waits for the rank's
// backend, runs on a stream of its own and ends when it is done. While it waits
// it looks for NCCL's own errors and for Abort, and ends itself with them.
//
// Errors: InvalidArgument for no or repeated ordinals; Internal with NCCL's
// words.
absl::StatusOr<std::vector<std::unique_ptr<Communicator>>>
CreateNcclCommunicators(absl::Span<const int> ordinals);

}  // namespace recurve

#endif  // RECURVE_KERNELS_COMM_NCCL_H_
