// Copies and fills.
#include <cstring>

#include "kernels/cuda/emulation/api_call.h"
#include "kernels/cuda/emulation/capture.h"
#include "kernels/cuda/emulation/fault.h"
#include "kernels/cuda/emulation/memory.h"
#include "kernels/cuda/emulation/stream.h"

namespace recurve::cuda::emulation {
namespace {

bool IsDevice(const MemoryRange& range) { return range.device >= 0; }

bool KindFits(cudaMemcpyKind kind, const MemoryRange& to,
              const MemoryRange& from) {
  switch (kind) {
    case cudaMemcpyDefault:
      return true;
    case cudaMemcpyHostToHost:
      return !IsDevice(to) && !IsDevice(from);
    case cudaMemcpyHostToDevice:
      return IsDevice(to) && !IsDevice(from);
    case cudaMemcpyDeviceToHost:
      return !IsDevice(to) && IsDevice(from);
    case cudaMemcpyDeviceToDevice:
      return IsDevice(to) && IsDevice(from);
  }
  return false;
}

MemoryRange FindWholeRange(const char* call, const void* begin, size_t bytes) {
  MemoryRange range = FindRange(begin, bytes);
  if (!range.inside) {
    Fault("%s: %zu bytes at %p go on behind the end of their allocation", call,
          bytes, begin);
  }
  return range;
}

Work CopyWork(const char* call, void* to, const void* from, size_t bytes,
              const MemoryRange& to_range, const MemoryRange& from_range) {
  Work work;
  work.name = call;
  work.device = CurrentDevice();
  work.run = [=] { std::memmove(to, from, bytes); };
  if (IsDevice(to_range)) work.memory.insert(to_range.device);
  if (IsDevice(from_range)) work.memory.insert(from_range.device);
  if (to_range.device == kPinned) {
    work.host_uses.push_back({static_cast<char*>(to), bytes, true});
  }
  if (from_range.device == kPinned) {
    work.host_uses.push_back(
        {const_cast<char*>(static_cast<const char*>(from)), bytes, false});
  }
  return work;
}

cudaError_t CopyAsync(void* to, const void* from, size_t bytes,
                      cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  constexpr char kCall[] = "cudaMemcpyAsync";
  MemoryRange to_range = FindWholeRange(kCall, to, bytes);
  MemoryRange from_range = FindWholeRange(kCall, from, bytes);
  if (!KindFits(kind, to_range, from_range)) return cudaErrorInvalidValue;
  if (to_range.device == kPageable || from_range.device == kPageable) {
    Fault(
        "cudaMemcpyAsync of pageable memory waits for the device: use "
        "cudaMallocHost, or cudaMemcpy where waiting is meant");
  }
  return Submit(stream, CopyWork(kCall, to, from, bytes, to_range, from_range));
}

// Runs work in the null stream and waits for it.
cudaError_t SubmitAndWait(Work work) {
  cudaError_t error = CheckUnsafeCall();
  if (error == cudaSuccess) error = Submit(nullptr, std::move(work));
  if (error != cudaSuccess) return error;
  RunStream(*FindStream(nullptr));
  return DeviceError(CurrentDevice());
}

cudaError_t CopyNow(void* to, const void* from, size_t bytes,
                    cudaMemcpyKind kind) {
  if (bytes == 0) return cudaSuccess;
  constexpr char kCall[] = "cudaMemcpy";
  MemoryRange to_range = FindWholeRange(kCall, to, bytes);
  MemoryRange from_range = FindWholeRange(kCall, from, bytes);
  if (!KindFits(kind, to_range, from_range)) return cudaErrorInvalidValue;
  return SubmitAndWait(CopyWork(kCall, to, from, bytes, to_range, from_range));
}

// Sets work to a fill of device memory, or returns why it cannot be.
cudaError_t FillWork(void* pointer, int value, size_t bytes, Work* work) {
  MemoryRange range = FindWholeRange("cudaMemset", pointer, bytes);
  if (!IsDevice(range)) return cudaErrorInvalidValue;
  work->name = "cudaMemset";
  work->device = CurrentDevice();
  work->memory = {range.device};
  work->run = [=] { std::memset(pointer, value, bytes); };
  return cudaSuccess;
}

}  // namespace
}  // namespace recurve::cuda::emulation

using namespace recurve::cuda::emulation;

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes,
                       cudaMemcpyKind kind) {
  return ApiCall([&] { return CopyNow(to, from, bytes, kind); });
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream) {
  return ApiCall([&] { return CopyAsync(to, from, bytes, kind, stream); });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from,
                                int from_device, size_t bytes,
                                cudaStream_t stream) {
  return ApiCall([&] {
    if (bytes != 0 && (FindRange(to, bytes).device != to_device ||
                       FindRange(from, bytes).device != from_device)) {
      return cudaErrorInvalidValue;
    }
    return CopyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
  });
}

cudaError_t cudaMemset(void* pointer, int value, size_t bytes) {
  return ApiCall([&] {
    if (bytes == 0) return cudaSuccess;
    Work work;
    cudaError_t error = FillWork(pointer, value, bytes, &work);
    return error != cudaSuccess ? error : SubmitAndWait(std::move(work));
  });
}

cudaError_t cudaMemsetAsync(void* pointer, int value, size_t bytes,
                            cudaStream_t stream) {
  return ApiCall([&] {
    if (bytes == 0) return cudaSuccess;
    Work work;
    cudaError_t error = FillWork(pointer, value, bytes, &work);
    return error != cudaSuccess ? error : Submit(stream, std::move(work));
  });
}
