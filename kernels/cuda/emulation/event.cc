// Events: each record is an operation; an event means its last one.
#include <chrono>
#include <memory>
#include <set>

#include "kernels/cuda/emulation/api_call.h"
#include "kernels/cuda/emulation/capture.h"
#include "kernels/cuda/emulation/stream.h"

struct CUevent_st {
  using Time = std::chrono::steady_clock::time_point;

  int device;
  bool has_time;
  recurve::cuda::emulation::OperationPointer record;
  std::shared_ptr<Time> time;  // of the record, once it has run
  // If the last record was captured: into what, after which nodes.
  std::shared_ptr<recurve::cuda::emulation::Capture> capture;
  std::vector<int> captured_after;
};

namespace recurve::cuda::emulation {
namespace {

std::set<cudaEvent_t>& LiveEvents() {
  static auto* events = new std::set<cudaEvent_t>;
  return *events;
}

bool IsLive(cudaEvent_t event) { return LiveEvents().contains(event); }

cudaError_t CreateEvent(cudaEvent_t* event, bool has_time) {
  return ApiCall([&] {
    if (!DeviceExists(CurrentDevice())) return cudaErrorNoDevice;
    *event = new CUevent_st{CurrentDevice(), has_time, {}, {}, {}, {}};
    LiveEvents().insert(*event);
    return cudaSuccess;
  });
}

cudaError_t Record(CUevent_st& event, CUstream_st& stream) {
  if (event.device != stream.device) return cudaErrorInvalidResourceHandle;
  if (stream.capture != nullptr) {
    event.capture = stream.capture;
    event.captured_after = stream.capture_after;
    return cudaSuccess;
  }
  auto time = std::make_shared<CUevent_st::Time>();
  Work work;
  work.name = "a record of an event";
  work.device = stream.device;
  work.run = [time] { *time = std::chrono::steady_clock::now(); };
  cudaError_t error = Submit(&stream, std::move(work));
  if (error != cudaSuccess) return error;
  event.record = stream.last;
  event.time = time;
  event.capture = nullptr;
  return cudaSuccess;
}

cudaError_t Wait(CUstream_st& stream, const CUevent_st& event) {
  if (event.capture != nullptr) {
    return CaptureWait(stream, event.capture, event.captured_after);
  }
  if (event.record == nullptr) return cudaSuccess;
  if (stream.capture != nullptr) {
    return InvalidateCapture(stream, cudaErrorStreamCaptureIsolation);
  }
  WaitFor(&stream, event.record);
  return cudaSuccess;
}

// For calls of the host that look at an event.
cudaError_t CheckEvent(cudaEvent_t event) {
  if (!IsLive(event)) return cudaErrorInvalidResourceHandle;
  if (event->capture != nullptr) {
    event->capture->invalidated = true;
    return cudaErrorCapturedEvent;
  }
  return CheckUnsafeCall();
}

bool IsDone(const CUevent_st& event) {
  return event.record == nullptr || event.record->done;
}

cudaError_t Elapsed(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  for (cudaEvent_t event : {begin, end}) {
    if (!IsLive(event) || !event->has_time || event->record == nullptr ||
        event->capture != nullptr) {
      return cudaErrorInvalidResourceHandle;
    }
    if (!IsDone(*event)) return cudaErrorNotReady;
  }
  std::chrono::duration<float, std::milli> elapsed = *end->time - *begin->time;
  *milliseconds = elapsed.count();
  return cudaSuccess;
}

}  // namespace
}  // namespace recurve::cuda::emulation

using namespace recurve::cuda::emulation;

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return CreateEvent(event, true);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return CreateEvent(event, (flags & cudaEventDisableTiming) == 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return ApiCall([&] {
    if (LiveEvents().erase(event) == 0) return cudaErrorInvalidResourceHandle;
    delete event;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  return ApiCall([&] {
    CUstream_st* stream = FindStream(handle);
    if (stream == nullptr || !IsLive(event)) {
      return cudaErrorInvalidResourceHandle;
    }
    return Record(*event, *stream);
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event,
                                unsigned) {
  return ApiCall([&] {
    CUstream_st* stream = FindStream(handle);
    if (stream == nullptr || !IsLive(event)) {
      return cudaErrorInvalidResourceHandle;
    }
    return Wait(*stream, *event);
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return ApiCall([&] {
    cudaError_t error = CheckEvent(event);
    if (error != cudaSuccess) return error;
    if (event->record != nullptr) RunUntilDone(*event->record);
    return DeviceError(event->device);
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return ApiCall([&] {
    cudaError_t error = CheckEvent(event);
    if (error != cudaSuccess) return error;
    if (!IsDone(*event)) RunSome(*event->record);
    return IsDone(*event) ? DeviceError(event->device) : cudaErrorNotReady;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin,
                                 cudaEvent_t end) {
  return ApiCall([&] { return Elapsed(milliseconds, begin, end); });
}
