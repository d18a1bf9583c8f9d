// Work that comes back is captured into a CUDA graph and launched as one: a
// layer's few small kernels otherwise take longer to start than to run.
#ifndef RECURVE_KERNELS_CUDA_RECORDING_H_
#define RECURVE_KERNELS_CUDA_RECORDING_H_

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/cuda/portable.h"

namespace recurve::cuda {

// Replays on one stream (Backend::Replay). The first call of a recording does
// its operations as they are, which also loads their kernels; the second
// captures them; from then on the graph is launched. Where CUDA refuses to
// capture or to make the graph, it says so on stderr, once a recording, and
// that recording's operations are done as they are every time.
class Recorder {
 public:
  explicit Recorder(cudaStream_t stream) : stream_(stream) {}

  // Errors: those of the operations, and of launching the graph.
  absl::Status Replay(std::unique_ptr<Recording>& recording,
                      absl::FunctionRef<absl::Status()> operations);

  // True while operations are only noted down: nothing may allocate, wait, or
  // touch the host's memory.
  bool capturing() const { return capturing_; }

 private:
  const cudaStream_t stream_;
  bool capturing_ = false;
};

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_RECORDING_H_
