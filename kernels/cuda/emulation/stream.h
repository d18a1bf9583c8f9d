// Streams as queues. Work runs in the order of its stream, after what its
// stream waits for, and otherwise whenever StreamMode (control.h) likes, in the
// thread of some call of the API. Called with the runtime's lock held.
//
// The null stream has CUDA's legacy rules: its work waits for all work of the
// device's blocking streams, and theirs for its.
#ifndef RECURVE_KERNELS_CUDA_EMULATION_STREAM_H_
#define RECURVE_KERNELS_CUDA_EMULATION_STREAM_H_

#include <deque>
#include <memory>
#include <vector>

#include "kernels/cuda/emulation/runtime_api.h"
#include "kernels/cuda/emulation/work.h"

namespace recurve::cuda::emulation {

struct Capture;

// Work in a queue.
struct Operation {
  // A pinned range that the host must not change, and what it held.
  struct Unchanged {
    HostUse use;
    uint64_t checksum;
  };

  Work work;
  std::vector<std::shared_ptr<Operation>> after;
  CUstream_st* stream = nullptr;
  bool done = false;
  std::vector<Unchanged> unchanged;
};
using OperationPointer = std::shared_ptr<Operation>;

// Puts work into stream (null: the current device's null stream), or into the
// graph that the stream is captured into.
cudaError_t Submit(cudaStream_t stream, Work work);
// Beside its stream's order, work of the next Submit to it runs after this.
void WaitFor(cudaStream_t stream, OperationPointer operation);

// The stream that a handle means, null if none.
CUstream_st* FindStream(cudaStream_t stream);

void RunStream(CUstream_st& stream);
void RunUntilDone(const Operation& operation);
// Runs one piece of work of the operation's stream, for callers that poll.
void RunSome(const Operation& operation);
void RunDevice(int device);
void RunAll();
// Forgets all queued work and captures, and the StreamMode.
void DropWork();

}  // namespace recurve::cuda::emulation

struct CUstream_st {
  int device = 0;
  bool is_null = false;
  bool blocking = true;  // ordered with the null stream
  bool destroyed = false;
  std::deque<recurve::cuda::emulation::OperationPointer> queue;
  recurve::cuda::emulation::OperationPointer last;
  std::vector<recurve::cuda::emulation::OperationPointer> waits;

  // While captured: into what, and the nodes that the next one follows.
  std::shared_ptr<recurve::cuda::emulation::Capture> capture;
  std::vector<int> capture_after;
};

#endif  // RECURVE_KERNELS_CUDA_EMULATION_STREAM_H_
