// A backend that knows how much device memory is allocated through it.
#ifndef RECURVE_ENGINE_SCHEDULE_COUNTING_BACKEND_H_
#define RECURVE_ENGINE_SCHEDULE_COUNTING_BACKEND_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/forwarding_backend.h"

namespace recurve {

class CountingBackend : public ForwardingBackend {
 public:
  // `allocated_bytes` is shared with whoever reads it, and with every buffer,
  // so it may be read and buffers may be released after the backend has gone.
  CountingBackend(std::unique_ptr<Backend> to,
                  std::shared_ptr<std::atomic<int64_t>> allocated_bytes);

  absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(
      int64_t bytes) override;

 private:
  const std::shared_ptr<std::atomic<int64_t>> allocated_bytes_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SCHEDULE_COUNTING_BACKEND_H_
