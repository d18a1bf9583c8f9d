#include "engine/schedule/gpus.h"

namespace recurve {
namespace {

absl::Status NoCuda() {
  return absl::UnavailableError(
      "this build has no CUDA (one by bazel build --config=cuda has); use "
      "--devices=cpu:THREADS");
}

}  // namespace

absl::StatusOr<Gpu> FindGpu(int) { return NoCuda(); }

absl::StatusOr<std::unique_ptr<Backend>> CreateGpuBackend(const DeviceSpec&) {
  return NoCuda();
}

absl::StatusOr<std::vector<std::unique_ptr<Communicator>>> ConnectGpus(
    absl::Span<const int>) {
  return NoCuda();
}

}  // namespace recurve
