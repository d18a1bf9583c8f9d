// Devices, errors, and the failures that tests ask for.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "kernels/cuda/emulation/api_call.h"
#include "kernels/cuda/emulation/control.h"
#include "kernels/cuda/emulation/launch.h"
#include "kernels/cuda/emulation/stream.h"

namespace recurve::cuda::emulation {
namespace {

constexpr int kDefaultDevices = 2;
constexpr int kDefaultCapability = 90;

// An error after a number of further events.
struct Failure {
  int skip;
  cudaError_t error;
};

struct Machine {
  int devices = kDefaultDevices;
  int capability = kDefaultCapability;
  std::map<int, cudaError_t> broken;
  std::set<std::pair<int, int>> peers;  // (device, whose memory it may touch)
  std::optional<Failure> call_failure;
  std::optional<Failure> kernel_failure;
};

Machine& GetMachine() {
  static Machine* machine = new Machine;
  return *machine;
}

thread_local int current_device = 0;
thread_local cudaError_t last_error = cudaSuccess;

// The failure's error if it is its turn.
cudaError_t Count(std::optional<Failure>& failure) {
  if (!failure.has_value() || failure->skip-- > 0) return cudaSuccess;
  return std::exchange(failure, std::nullopt)->error;
}

// The figures of an H100, but for the memory.
cudaDeviceProp PropertiesOf(int device, size_t memory) {
  cudaDeviceProp properties;
  std::memset(&properties, 0, sizeof(properties));
  std::snprintf(properties.name, sizeof(properties.name),
                "Emulated CUDA device %d", device);
  properties.uuid.bytes[15] = static_cast<char>(device + 1);
  properties.totalGlobalMem = memory;
  properties.sharedMemPerBlock = 48 << 10;
  properties.major = GetMachine().capability / 10;
  properties.minor = GetMachine().capability % 10;
  properties.multiProcessorCount = 132;
  properties.maxThreadsPerBlock = 1024;
  properties.maxThreadsPerMultiProcessor = 2048;
  properties.l2CacheSize = 50 << 20;
  properties.warpSize = 32;
  properties.pciBusID = device + 1;
  return properties;
}

cudaError_t Attribute(int* value, cudaDeviceAttr attribute, int device) {
  const cudaDeviceProp properties = PropertiesOf(device, 0);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = properties.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(properties.sharedMemPerBlock);
      break;
    case cudaDevAttrWarpSize:
      *value = properties.warpSize;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = properties.multiProcessorCount;
      break;
    case cudaDevAttrL2CacheSize:
      *value = properties.l2CacheSize;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = properties.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = properties.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = properties.minor;
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

}  // namespace

std::mutex& RuntimeLock() {
  static auto* lock = new std::mutex;
  return *lock;
}

cudaError_t ErrorAskedFor() { return Count(GetMachine().call_failure); }

cudaError_t Remember(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

int CurrentDevice() { return current_device; }

bool DeviceExists(int device) {
  return device >= 0 && device < GetMachine().devices;
}

std::set<int> AccessibleDevices(int device) {
  std::set<int> accessible = {device};
  for (auto [from, to] : GetMachine().peers) {
    if (from == device) accessible.insert(to);
  }
  return accessible;
}

cudaError_t DeviceError(int device) {
  auto it = GetMachine().broken.find(device);
  return it == GetMachine().broken.end() ? cudaSuccess : it->second;
}

cudaError_t ErrorOfKernel(int device) {
  cudaError_t error = Count(GetMachine().kernel_failure);
  if (error != cudaSuccess) GetMachine().broken[device] = error;
  return error;
}

cudaError_t ProbeKernel() {
  return ApiCall([] { return cudaSuccess; });
}

void SetDeviceCount(int count) {
  std::lock_guard lock(RuntimeLock());
  GetMachine().devices = count;
}

void SetComputeCapability(int major_times_ten_plus_minor) {
  std::lock_guard lock(RuntimeLock());
  GetMachine().capability = major_times_ten_plus_minor;
}

void FailCall(int skip, cudaError_t error) {
  std::lock_guard lock(RuntimeLock());
  GetMachine().call_failure = Failure{skip, error};
}

bool FailureIsPending() {
  std::lock_guard lock(RuntimeLock());
  return GetMachine().call_failure.has_value();
}

void FailKernel(int skip, cudaError_t error) {
  std::lock_guard lock(RuntimeLock());
  GetMachine().kernel_failure = Failure{skip, error};
}

void Reset() {
  std::lock_guard lock(RuntimeLock());
  DropWork();
  ResetDeviceMemory();
  GetMachine() = Machine();
  last_error = cudaSuccess;
}

}  // namespace recurve::cuda::emulation

using namespace recurve::cuda::emulation;

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define RECURVE_CUDA_ERROR(name, value, text) \
  case name:                                  \
    return #name;
    RECURVE_CUDA_ERRORS(RECURVE_CUDA_ERROR)
#undef RECURVE_CUDA_ERROR
  }
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
#define RECURVE_CUDA_ERROR(name, value, text) \
  case name:                                  \
    return text;
    RECURVE_CUDA_ERRORS(RECURVE_CUDA_ERROR)
#undef RECURVE_CUDA_ERROR
  }
  return "unrecognized error code";
}

cudaError_t cudaPeekAtLastError() {
  std::lock_guard lock(RuntimeLock());
  cudaError_t broken = DeviceError(current_device);
  return broken != cudaSuccess ? broken : last_error;
}

cudaError_t cudaGetLastError() {
  cudaError_t error = cudaPeekAtLastError();
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  return QueryCall([&] {
    *version = GetMachine().devices > 0 ? 13000 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceCount(int* count) {
  return QueryCall([&] {
    if (GetMachine().devices == 0) return cudaErrorNoDevice;
    *count = GetMachine().devices;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return QueryCall([&] {
    if (!DeviceExists(device)) return cudaErrorInvalidDevice;
    current_device = device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return QueryCall([&] {
    *device = current_device;
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return QueryCall([&] {
    if (!DeviceExists(device)) return cudaErrorInvalidDevice;
    *properties = PropertiesOf(device, DeviceMemoryBytes());
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute,
                                   int device) {
  return QueryCall([&] {
    return DeviceExists(device) ? Attribute(value, attribute, device)
                                : cudaErrorInvalidDevice;
  });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return QueryCall([&] {
    if (!DeviceExists(device) || !DeviceExists(peer)) {
      return cudaErrorInvalidDevice;
    }
    *can = device != peer;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  return ApiCall([&] {
    if (!DeviceExists(peer) || peer == current_device) {
      return cudaErrorInvalidDevice;
    }
    bool is_new = GetMachine().peers.insert({current_device, peer}).second;
    return is_new ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
  });
}
