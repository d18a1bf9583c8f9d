#include "kernels/cuda/emulation/capture.h"

#include <algorithm>

#include "kernels/cuda/emulation/api_call.h"
#include "kernels/cuda/emulation/stream.h"

namespace recurve::cuda::emulation {
namespace {

std::set<std::shared_ptr<Capture>>& ActiveCaptures() {
  static auto* captures = new std::set<std::shared_ptr<Capture>>;
  return *captures;
}

void End(const std::shared_ptr<Capture>& capture) {
  capture->ended = true;
  for (CUstream_st* stream : capture->streams) {
    stream->capture = nullptr;
    stream->capture_after.clear();
  }
  ActiveCaptures().erase(capture);
}

// The nodes that `nodes` follow, themselves among them.
std::set<int> WithPredecessors(const CUgraph_st& graph,
                               std::vector<int> nodes) {
  std::set<int> all;
  while (!nodes.empty()) {
    int node = nodes.back();
    nodes.pop_back();
    if (!all.insert(node).second) continue;
    const std::vector<int>& after = graph.nodes[node].after;
    nodes.insert(nodes.end(), after.begin(), after.end());
  }
  return all;
}

bool AllJoined(const Capture& capture) {
  std::set<int> joined =
      WithPredecessors(capture.graph, capture.origin->capture_after);
  return joined.size() == capture.graph.nodes.size();
}

cudaError_t BeginCapture(CUstream_st& stream, cudaStreamCaptureMode mode) {
  if (stream.is_null) return cudaErrorStreamCaptureUnsupported;
  if (stream.capture != nullptr) return cudaErrorInvalidValue;
  auto capture = std::make_shared<Capture>();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = &stream;
  capture->streams = {&stream};
  stream.capture = capture;
  stream.capture_after.clear();
  ActiveCaptures().insert(capture);
  return cudaSuccess;
}

cudaError_t EndCapture(CUstream_st& stream, cudaGraph_t* graph) {
  *graph = nullptr;
  std::shared_ptr<Capture> capture = stream.capture;
  if (capture == nullptr) return cudaErrorInvalidValue;
  if (capture->origin != &stream) {
    return InvalidateCapture(stream, cudaErrorStreamCaptureUnmatched);
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  bool joined = AllJoined(*capture);
  End(capture);
  if (capture->invalidated) return cudaErrorStreamCaptureInvalidated;
  if (!joined) return cudaErrorStreamCaptureUnjoined;
  *graph = new CUgraph_st(std::move(capture->graph));
  return cudaSuccess;
}

}  // namespace

cudaError_t CheckUnsafeCall() {
  cudaError_t error = cudaSuccess;
  for (const std::shared_ptr<Capture>& capture : ActiveCaptures()) {
    bool forbids = capture->mode == cudaStreamCaptureModeGlobal ||
                   (capture->mode == cudaStreamCaptureModeThreadLocal &&
                    capture->thread == std::this_thread::get_id());
    if (!forbids) continue;
    capture->invalidated = true;
    error = cudaErrorStreamCaptureUnsupported;
  }
  return error;
}

cudaError_t CheckNullStream(int device) {
  for (const std::shared_ptr<Capture>& capture : ActiveCaptures()) {
    for (CUstream_st* stream : capture->streams) {
      if (!stream->blocking || stream->device != device) continue;
      capture->invalidated = true;
      return cudaErrorStreamCaptureImplicit;
    }
  }
  return cudaSuccess;
}

cudaError_t InvalidateCapture(CUstream_st& stream, cudaError_t error) {
  stream.capture->invalidated = true;
  return error;
}

cudaError_t CaptureWork(CUstream_st& stream, Work work) {
  Capture& capture = *stream.capture;
  if (capture.invalidated) return cudaErrorStreamCaptureInvalidated;
  capture.graph.nodes.push_back({std::move(work), stream.capture_after});
  stream.capture_after = {static_cast<int>(capture.graph.nodes.size()) - 1};
  return cudaSuccess;
}

cudaError_t CaptureWait(CUstream_st& stream,
                        const std::shared_ptr<Capture>& capture,
                        const std::vector<int>& nodes) {
  if (capture->ended) return cudaErrorCapturedEvent;
  if (capture->invalidated) return cudaErrorStreamCaptureInvalidated;
  if (stream.is_null) return cudaErrorStreamCaptureImplicit;
  if (stream.capture == nullptr) {
    stream.capture = capture;
    capture->streams.insert(&stream);
  } else if (stream.capture != capture) {
    capture->invalidated = true;
    return InvalidateCapture(stream, cudaErrorStreamCaptureMerge);
  }
  stream.capture_after.insert(stream.capture_after.end(), nodes.begin(),
                              nodes.end());
  return cudaSuccess;
}

void AbandonCapture(CUstream_st& stream) {
  std::shared_ptr<Capture> capture = stream.capture;
  End(capture);
}

void AbandonCaptures() {
  while (!ActiveCaptures().empty()) {
    std::shared_ptr<Capture> capture = *ActiveCaptures().begin();
    End(capture);
  }
}

}  // namespace recurve::cuda::emulation

using namespace recurve::cuda::emulation;

cudaError_t cudaStreamBeginCapture(cudaStream_t handle,
                                   cudaStreamCaptureMode mode) {
  return ApiCall([&] {
    CUstream_st* stream = FindStream(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle
                             : BeginCapture(*stream, mode);
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return ApiCall([&] {
    CUstream_st* stream = FindStream(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle
                             : EndCapture(*stream, graph);
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle,
                                  cudaStreamCaptureStatus* status) {
  return ApiCall([&] {
    CUstream_st* stream = FindStream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    *status = stream->capture == nullptr ? cudaStreamCaptureStatusNone
              : stream->capture->invalidated
                  ? cudaStreamCaptureStatusInvalidated
                  : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}
