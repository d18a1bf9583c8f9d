// Streams that are captured into graphs. Called with the runtime's lock held.
#ifndef RECURVE_KERNELS_CUDA_EMULATION_CAPTURE_H_
#define RECURVE_KERNELS_CUDA_EMULATION_CAPTURE_H_

#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "kernels/cuda/emulation/runtime_api.h"
#include "kernels/cuda/emulation/work.h"

struct CUgraphNode_st {
  recurve::cuda::emulation::Work work;
  std::vector<int> after;  // numbers of earlier nodes
};

struct CUgraph_st {
  std::vector<CUgraphNode_st> nodes;
};

namespace recurve::cuda::emulation {

struct Capture {
  cudaStreamCaptureMode mode;
  std::thread::id thread;
  CUstream_st* origin;
  std::set<CUstream_st*> streams;  // origin and those that joined
  bool invalidated = false;
  bool ended = false;
  CUgraph_st graph;
};

// For calls that CUDA forbids during a capture (allocation, synchronisation):
// cudaErrorStreamCaptureUnsupported, and the captures that forbid it become
// invalid.
cudaError_t CheckUnsafeCall();
// For work of the null stream, which may not wait for a captured stream.
cudaError_t CheckNullStream(int device);

// Makes the capture of the stream invalid; returns error.
// These three: REQUIRES stream.capture, but for CaptureWait.
cudaError_t InvalidateCapture(CUstream_st& stream, cudaError_t error);
cudaError_t CaptureWork(CUstream_st& stream, Work work);
// The stream's next node follows these nodes of capture, too; a stream that is
// not captured joins.
cudaError_t CaptureWait(CUstream_st& stream,
                        const std::shared_ptr<Capture>& capture,
                        const std::vector<int>& nodes);
// Forgets the capture that the stream takes part in; all captures.
void AbandonCapture(CUstream_st& stream);
void AbandonCaptures();

}  // namespace recurve::cuda::emulation

#endif  // RECURVE_KERNELS_CUDA_EMULATION_CAPTURE_H_
