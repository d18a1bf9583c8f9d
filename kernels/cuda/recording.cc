#include "kernels/cuda/recording.h"

#include <cstdio>

#include "absl/status/statusor.h"
#include "kernels/cuda/status.h"
#include "kernels/status.h"

namespace recurve::cuda {
namespace {

class GraphRecording : public Recording {
 public:
  ~GraphRecording() override {
    if (graph != nullptr) cudaGraphExecDestroy(graph);
  }

  bool refused = false;             // CUDA did not make a graph of it
  cudaGraphExec_t graph = nullptr;  // after the second call
};

void Report(const absl::Status& refusal) {
  std::fprintf(stderr,
               "No CUDA graph of operations that are repeated; they are done "
               "one by one: %s\n",
               refusal.ToString().c_str());
}

absl::Status Instantiate(cudaGraph_t graph, GraphRecording& recording) {
  const absl::Status status = ToStatus(
      cudaGraphInstantiate(&recording.graph, graph, 0), "cudaGraphInstantiate");
  if (!status.ok()) recording.graph = nullptr;
  cudaGraphDestroy(graph);
  return status;
}

// A stream that went on capturing would not do what it is given.
absl::Status CheckNotCapturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  RETURN_IF_ERROR(ToStatus(cudaStreamIsCapturing(stream, &status),
                           "cudaStreamIsCapturing"));
  if (status == cudaStreamCaptureStatusNone) return absl::OkStatus();
  return absl::InternalError("a CUDA stream could not end its capture");
}

// What capturing came to: whether the operations were all right, and whether
// CUDA made a graph of them.
struct Capture {
  absl::Status operations;
  absl::Status graph;
};

Capture CaptureInto(GraphRecording& recording, cudaStream_t stream,
                    absl::FunctionRef<absl::Status()> operations) {
  Capture capture;
  // Other threads may do to their devices what they like meanwhile.
  capture.graph =
      ToStatus(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
               "cudaStreamBeginCapture");
  if (!capture.graph.ok()) return capture;
  capture.operations = operations();
  cudaGraph_t graph = nullptr;
  capture.graph =
      ToStatus(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  if (capture.graph.ok()) capture.graph = Instantiate(graph, recording);
  return capture;
}

}  // namespace

absl::Status Recorder::Replay(std::unique_ptr<Recording>& recording,
                              absl::FunctionRef<absl::Status()> operations) {
  if (capturing_) return operations();  // part of what is captured
  if (recording == nullptr) {
    RETURN_IF_ERROR(operations());
    recording = std::make_unique<GraphRecording>();
    return absl::OkStatus();
  }
  auto& own = static_cast<GraphRecording&>(*recording);
  if (own.graph == nullptr && !own.refused) {
    capturing_ = true;
    const Capture capture = CaptureInto(own, stream_, operations);
    capturing_ = false;
    // Nothing has been done yet, whatever went wrong.
    if (absl::IsFailedPrecondition(capture.operations)) {
      recording = nullptr;
      return capture.operations;
    }
    const absl::Status& refusal =
        capture.operations.ok() ? capture.graph : capture.operations;
    own.refused = !refusal.ok();
    if (own.refused) {
      Report(refusal);
      RETURN_IF_ERROR(CheckNotCapturing(stream_));
    }
  }
  if (own.refused) return operations();
  return ToStatus(cudaGraphLaunch(own.graph, stream_), "cudaGraphLaunch");
}

}  // namespace recurve::cuda
