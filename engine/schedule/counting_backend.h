// A backend that knows how much device memory is allocated through it, and
// keeps to a budget.
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
  // `budget_bytes` 0 = not limited.
  CountingBackend(std::unique_ptr<Backend> to,
                  std::shared_ptr<std::atomic<int64_t>> allocated_bytes,
                  int64_t budget_bytes);

  // ResourceExhausted, with the numbers, for what the budget does not hold.
  absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(
      int64_t bytes) override;

 private:
  const std::shared_ptr<std::atomic<int64_t>> allocated_bytes_;
  const int64_t budget_bytes_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SCHEDULE_COUNTING_BACKEND_H_
