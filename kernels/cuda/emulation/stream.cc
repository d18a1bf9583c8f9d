#include "kernels/cuda/emulation/stream.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

#include "kernels/cuda/emulation/api_call.h"
#include "kernels/cuda/emulation/block.h"
#include "kernels/cuda/emulation/capture.h"
#include "kernels/cuda/emulation/control.h"
#include "kernels/cuda/emulation/crash_report.h"
#include "kernels/cuda/emulation/launch.h"
#include "kernels/cuda/emulation/order.h"

namespace recurve::cuda::emulation {
namespace {

StreamMode ModeFromEnvironment() {
  const char* name = std::getenv("RECURVE_CUDA_STREAMS");
  if (name != nullptr && std::strcmp(name, "lazy") == 0) {
    return StreamMode::kLazy;
  }
  if (name != nullptr && std::strcmp(name, "eager") == 0) {
    return StreamMode::kEager;
  }
  return StreamMode::kRandom;
}

struct Streams {
  StreamMode mode = ModeFromEnvironment();
  std::vector<std::unique_ptr<CUstream_st>> all;
  std::map<int, CUstream_st*> null_streams;  // by device
};

Streams& GetStreams() {
  static Streams* streams = new Streams;
  return *streams;
}

CUstream_st* AddStream(bool is_null, bool blocking) {
  auto stream = std::make_unique<CUstream_st>();
  stream->device = CurrentDevice();
  stream->is_null = is_null;
  stream->blocking = blocking;
  GetStreams().all.push_back(std::move(stream));
  return GetStreams().all.back().get();
}

CUstream_st* NullStream() {
  CUstream_st*& stream = GetStreams().null_streams[CurrentDevice()];
  if (stream == nullptr) stream = AddStream(true, false);
  return stream;
}

// The legacy null stream's order with the device's blocking streams.
void AddNullStreamOrder(CUstream_st& stream, Operation& operation) {
  for (const auto& other : GetStreams().all) {
    if (other->device != stream.device || other->last == nullptr) continue;
    bool ordered =
        stream.is_null ? other->blocking : stream.blocking && other->is_null;
    if (ordered) operation.after.push_back(other->last);
  }
}

// Whether work in some queue uses part of the range, or only if it writes it.
bool InUse(const HostUse& range, bool only_writes) {
  for (const auto& stream : GetStreams().all) {
    for (const OperationPointer& operation : stream->queue) {
      for (const HostUse& use : operation->work.host_uses) {
        if ((use.written || !only_writes) && Overlap(use, range)) return true;
      }
    }
  }
  return false;
}

bool UsedTwice(const Work& work, const HostUse& range) {
  return std::count_if(
             work.host_uses.begin(), work.host_uses.end(),
             [&](const HostUse& use) { return Overlap(use, range); }) > 1;
}

// From here on the host must leave the ranges alone: what will be read is
// remembered, what will be written is spoilt now. (Not where other work is to
// come first.)
void WatchHostMemory(Operation& operation) {
  for (const HostUse& use : operation.work.host_uses) {
    if (InUse(use, /*only_writes=*/!use.written)) continue;
    if (UsedTwice(operation.work, use)) continue;
    if (use.written) {
      std::memset(use.begin, 0xFF, use.bytes);
    } else {
      operation.unchanged.push_back({use, Checksum(use)});
    }
  }
}

void CheckHostMemory(const Operation& operation) {
  for (const Operation::Unchanged& unchanged : operation.unchanged) {
    if (Checksum(unchanged.use) == unchanged.checksum) continue;
    Fault(
        "the host changed %zu bytes of pinned memory at %p before %s had read "
        "them",
        unchanged.use.bytes, static_cast<void*>(unchanged.use.begin),
        operation.work.name.c_str());
  }
}

void RunFirst(CUstream_st& stream) {
  OperationPointer operation = stream.queue.front();
  for (const OperationPointer& before : operation->after) {
    while (!before->done) RunFirst(*before->stream);
  }
  CheckHostMemory(*operation);
  RunWork(operation->work);
  stream.queue.pop_front();
  operation->done = true;
  operation->work = {};
  operation->after.clear();
}

// What is left of streams that were destroyed with work in them.
void RemoveDestroyed() {
  std::erase_if(GetStreams().all, [](const auto& stream) {
    return stream->destroyed && stream->queue.empty();
  });
}

void RunSomethingPerhaps() {
  Streams& streams = GetStreams();
  if (streams.mode != StreamMode::kRandom || Draw(2) == 0) return;
  CUstream_st& stream = *streams.all[Draw(streams.all.size())];
  for (uint64_t n = 1 + Draw(8); n > 0 && !stream.queue.empty(); --n) {
    RunFirst(stream);
  }
}

cudaError_t CreateStream(cudaStream_t* stream, unsigned flags) {
  return ApiCall([&] {
    if (!DeviceExists(CurrentDevice())) return cudaErrorNoDevice;
    *stream = AddStream(false, flags != cudaStreamNonBlocking);
    return cudaSuccess;
  });
}

cudaError_t Synchronize(CUstream_st& stream) {
  if (stream.capture != nullptr) {
    return InvalidateCapture(stream, cudaErrorStreamCaptureUnsupported);
  }
  cudaError_t error = CheckUnsafeCall();
  if (error != cudaSuccess) return error;
  RunStream(stream);
  return DeviceError(stream.device);
}

cudaError_t Query(CUstream_st& stream) {
  if (stream.capture != nullptr) {
    return InvalidateCapture(stream, cudaErrorStreamCaptureUnsupported);
  }
  cudaError_t error = CheckUnsafeCall();
  if (error != cudaSuccess) return error;
  if (!stream.queue.empty()) RunFirst(stream);
  return stream.queue.empty() ? DeviceError(stream.device) : cudaErrorNotReady;
}

cudaError_t CheckShape(dim3 grid, dim3 block) {
  constexpr unsigned kMaxGridYZ = 65535;
  constexpr unsigned kMaxGridX = 0x7fffffff;
  constexpr unsigned kMaxBlock = 1024;
  bool good = grid.x > 0 && grid.y > 0 && grid.z > 0 && block.x > 0 &&
              block.y > 0 && block.z > 0 && grid.x <= kMaxGridX &&
              grid.y <= kMaxGridYZ && grid.z <= kMaxGridYZ &&
              block.x <= kMaxBlock && block.y <= kMaxBlock && block.z <= 64 &&
              block.x * block.y * block.z <= kMaxBlock;
  return good ? cudaSuccess : cudaErrorInvalidConfiguration;
}

}  // namespace

cudaError_t Submit(cudaStream_t handle, Work work) {
  CUstream_st* stream = FindStream(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (stream->capture != nullptr) return CaptureWork(*stream, std::move(work));
  if (stream->is_null) {
    cudaError_t error = CheckNullStream(stream->device);
    if (error != cudaSuccess) return error;
  }
  auto operation = std::make_shared<Operation>();
  operation->work = std::move(work);
  operation->stream = stream;
  operation->after = std::move(stream->waits);
  stream->waits.clear();
  AddNullStreamOrder(*stream, *operation);
  WatchHostMemory(*operation);
  stream->queue.push_back(operation);
  stream->last = operation;
  if (GetStreams().mode == StreamMode::kEager) RunStream(*stream);
  RunSomethingPerhaps();
  return cudaSuccess;
}

void WaitFor(cudaStream_t stream, OperationPointer operation) {
  if (!operation->done) stream->waits.push_back(std::move(operation));
}

CUstream_st* FindStream(cudaStream_t handle) {
  if (handle == nullptr) return NullStream();
  for (const auto& stream : GetStreams().all) {
    if (stream.get() == handle && !stream->destroyed) return handle;
  }
  return nullptr;
}

void RunStream(CUstream_st& stream) {
  while (!stream.queue.empty()) RunFirst(stream);
}

void RunUntilDone(const Operation& operation) {
  while (!operation.done) RunFirst(*operation.stream);
}

void RunSome(const Operation& operation) {
  if (!operation.done) RunFirst(*operation.stream);
}

void RunDevice(int device) {
  for (const auto& stream : GetStreams().all) {
    if (stream->device == device) RunStream(*stream);
  }
  RemoveDestroyed();
}

void RunAll() {
  for (const auto& stream : GetStreams().all) RunStream(*stream);
  RemoveDestroyed();
}

bool NothingIsQueued() {
  return std::all_of(GetStreams().all.begin(), GetStreams().all.end(),
                     [](const auto& stream) { return stream->queue.empty(); });
}

void DropWork() {
  AbandonCaptures();
  for (const auto& stream : GetStreams().all) {
    for (const OperationPointer& operation : stream->queue) {
      operation->done = true;
    }
    stream->queue.clear();
    stream->waits.clear();
  }
  RemoveDestroyed();
  GetStreams().mode = ModeFromEnvironment();
}

void SetStreamMode(StreamMode mode) {
  std::lock_guard lock(RuntimeLock());
  GetStreams().mode = mode;
}

cudaError_t LaunchGrid(int kernel, dim3 grid, dim3 block, cudaStream_t stream,
                       std::function<void()> body) {
  return ApiCall([&] {
    CUstream_st* found = FindStream(stream);
    if (found == nullptr || found->device != CurrentDevice()) {
      return cudaErrorInvalidResourceHandle;
    }
    cudaError_t error = CheckShape(grid, block);
    if (error != cudaSuccess) return error;
    Work work;
    work.name = KernelName(kernel);
    work.device = found->device;
    work.memory = AccessibleDevices(found->device);
    work.is_kernel = true;
    work.run = [=, body = std::move(body)] {
      ExplainCrashes();
      MarkLaunched(kernel);
      RunGrid(KernelName(kernel), grid, block, body);
    };
    return Submit(found, std::move(work));
  });
}

}  // namespace recurve::cuda::emulation

using namespace recurve::cuda::emulation;

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return CreateStream(stream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return CreateStream(stream, flags);
}

// Work that is queued still runs.
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return ApiCall([&] {
    CUstream_st* stream = FindStream(handle);
    if (stream == nullptr || stream->is_null) {
      return cudaErrorInvalidResourceHandle;
    }
    if (stream->capture != nullptr) AbandonCapture(*stream);
    stream->destroyed = true;
    RemoveDestroyed();
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return ApiCall([&] {
    CUstream_st* stream = FindStream(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle
                             : Synchronize(*stream);
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return ApiCall([&] {
    CUstream_st* stream = FindStream(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : Query(*stream);
  });
}

cudaError_t cudaDeviceSynchronize() {
  return ApiCall([&] {
    cudaError_t error = CheckUnsafeCall();
    if (error != cudaSuccess) return error;
    RunDevice(CurrentDevice());
    return DeviceError(CurrentDevice());
  });
}
