#include "kernels/cuda/emulation/memory.h"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>

#include "kernels/cuda/emulation/api_call.h"
#include "kernels/cuda/emulation/capture.h"
#include "kernels/cuda/emulation/control.h"
#include "kernels/cuda/emulation/crash_report.h"
#include "kernels/cuda/emulation/fault.h"
#include "kernels/cuda/emulation/guarded_memory.h"
#include "kernels/cuda/emulation/stream.h"

namespace recurve::cuda::emulation {
namespace {

constexpr size_t kAlignment = 256;  // as cudaMalloc
constexpr size_t kDefaultDeviceBytes = size_t{1} << 30;
constexpr size_t kKeptBlocks = 256;  // freed and not yet given back

struct Allocation {
  std::unique_ptr<GuardedMemory> memory;
  int device;
};

struct Memory {
  std::map<uintptr_t, Allocation> allocations;  // by address
  std::deque<std::unique_ptr<GuardedMemory>> freed;
  std::set<int> open;
  size_t device_bytes = kDefaultDeviceBytes;
};

Memory& GetMemory() {
  static Memory* memory = new Memory;
  return *memory;
}

// The allocation whose address is the highest that is not above p, or null.
const Allocation* AllocationBefore(const void* p) {
  Memory& memory = GetMemory();
  auto it = memory.allocations.upper_bound(reinterpret_cast<uintptr_t>(p));
  return it == memory.allocations.begin() ? nullptr : &std::prev(it)->second;
}

size_t AllocatedBytes(bool (*counts)(int device, int wanted), int wanted) {
  size_t bytes = 0;
  for (const auto& [address, allocation] : GetMemory().allocations) {
    if (counts(allocation.device, wanted)) bytes += allocation.memory->size();
  }
  return bytes;
}

size_t BytesOn(int device) {
  return AllocatedBytes([](int d, int wanted) { return d == wanted; }, device);
}

cudaError_t Allocate(void** pointer, size_t bytes, int device) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  ExplainCrashes();
  Memory& memory = GetMemory();
  if (device != kPinned) {
    size_t used = BytesOn(device);
    if (used > memory.device_bytes || bytes > memory.device_bytes - used) {
      return cudaErrorMemoryAllocation;
    }
  }
  auto block = std::make_unique<GuardedMemory>(bytes, kAlignment);
  block->SetAccessible(device == kPinned || memory.open.contains(device));
  *pointer = block->data();
  memory.allocations[reinterpret_cast<uintptr_t>(*pointer)] = {std::move(block),
                                                               device};
  return cudaSuccess;
}

// REQUIRES: no queued work uses it.
cudaError_t Free(void* pointer, bool pinned) {
  Memory& memory = GetMemory();
  auto it = memory.allocations.find(reinterpret_cast<uintptr_t>(pointer));
  if (it == memory.allocations.end() ||
      (it->second.device == kPinned) != pinned) {
    return cudaErrorInvalidValue;
  }
  GuardedMemory& block = *it->second.memory;
  block.SetAccessible(true);
  if (!block.GuardsAreIntact()) {
    Fault("something was written beside %zu bytes that are being freed",
          block.size());
  }
  block.Discard();
  memory.freed.push_back(std::move(it->second.memory));
  memory.allocations.erase(it);
  if (memory.freed.size() > kKeptBlocks) memory.freed.pop_front();
  return cudaSuccess;
}

cudaError_t AllocateHost(void** pointer, size_t bytes) {
  return ApiCall([&] {
    cudaError_t error = CheckUnsafeCall();
    return error != cudaSuccess ? error : Allocate(pointer, bytes, kPinned);
  });
}

// Both wait for all work, as CUDA's do.
cudaError_t SynchronizeAndFree(void* pointer, bool pinned) {
  return ApiCall([&] {
    if (pointer == nullptr) return cudaSuccess;
    cudaError_t error = CheckUnsafeCall();
    if (error != cudaSuccess) return error;
    RunAll();
    return Free(pointer, pinned);
  });
}

}  // namespace

MemoryRange FindRange(const void* begin, size_t bytes) {
  const Allocation* before = AllocationBefore(begin);
  if (before == nullptr) return {};
  size_t offset = static_cast<const char*>(begin) -
                  static_cast<const char*>(before->memory->data());
  size_t size = before->memory->size();
  if (offset >= size && !(offset == size && bytes == 0)) return {};
  return {before->device, bytes <= size - offset};
}

std::optional<Neighbour> FindNeighbour(const void* p) {
  const Allocation* before = AllocationBefore(p);
  if (before == nullptr) return std::nullopt;
  return Neighbour{before->device, before->memory->size(),
                   static_cast<const char*>(p) -
                       static_cast<const char*>(before->memory->data())};
}

size_t DeviceMemoryBytes() { return GetMemory().device_bytes; }

void ResetDeviceMemory() { GetMemory().device_bytes = kDefaultDeviceBytes; }

void OpenDeviceMemory(const std::set<int>& devices) {
  Memory& memory = GetMemory();
  if (memory.open == devices) return;
  for (auto& [address, allocation] : memory.allocations) {
    if (allocation.device == kPinned) continue;
    bool open = devices.contains(allocation.device);
    if (open == memory.open.contains(allocation.device)) continue;
    allocation.memory->SetAccessible(open);
  }
  memory.open = devices;
}

void CheckGuards(const char* kernel) {
  Memory& memory = GetMemory();
  for (auto& [address, allocation] : memory.allocations) {
    if (allocation.device != kPinned &&
        !memory.open.contains(allocation.device)) {
      continue;
    }
    if (!allocation.memory->GuardsAreIntact()) {
      Fault("%s wrote outside an allocation of %zu bytes", kernel,
            allocation.memory->size());
    }
  }
}

void SetDeviceMemory(size_t bytes) {
  std::lock_guard lock(RuntimeLock());
  GetMemory().device_bytes = bytes;
}

size_t AllocatedDeviceBytes() {
  std::lock_guard lock(RuntimeLock());
  return AllocatedBytes([](int device, int) { return device != kPinned; }, 0);
}

size_t AllocatedPinnedBytes() {
  std::lock_guard lock(RuntimeLock());
  return BytesOn(kPinned);
}

}  // namespace recurve::cuda::emulation

using namespace recurve::cuda::emulation;

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  return ApiCall([&] {
    if (!DeviceExists(CurrentDevice())) return cudaErrorNoDevice;
    cudaError_t error = CheckUnsafeCall();
    return error != cudaSuccess ? error
                                : Allocate(pointer, bytes, CurrentDevice());
  });
}

cudaError_t cudaFree(void* pointer) {
  return SynchronizeAndFree(pointer, false);
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  return AllocateHost(pointer, bytes);
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned) {
  return AllocateHost(pointer, bytes);
}

cudaError_t cudaFreeHost(void* pointer) {
  return SynchronizeAndFree(pointer, true);
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return ApiCall([&] {
    if (!DeviceExists(CurrentDevice())) return cudaErrorNoDevice;
    size_t total = GetMemory().device_bytes;
    size_t used = BytesOn(CurrentDevice());
    *total_bytes = total;
    *free_bytes = used < total ? total - used : 0;
    return cudaSuccess;
  });
}
