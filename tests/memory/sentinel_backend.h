// A backend that shows which bytes of its buffers were ever written: buffers
// begin filled with a sentinel. A byte that has been written may look like the
// sentinel, but not like that of a second run with another one.
#ifndef RECURVE_TESTS_MEMORY_SENTINEL_BACKEND_H_
#define RECURVE_TESTS_MEMORY_SENTINEL_BACKEND_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/forwarding_backend.h"

namespace recurve {

// The buffers that are alive, in the order of their allocation. Thread-safe.
class LiveBuffers {
 public:
  // Their contents one after another; while nobody writes.
  std::vector<uint8_t> Contents() const;
  int64_t bytes() const;

 private:
  friend class SentinelBackend;
  friend class SentinelBuffer;

  mutable absl::Mutex mutex_;
  int64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<int64_t, const DeviceBuffer*> buffers_ ABSL_GUARDED_BY(mutex_);
};

class SentinelBackend : public ForwardingBackend {
 public:
  SentinelBackend(std::unique_ptr<Backend> to, uint8_t sentinel,
                  std::shared_ptr<LiveBuffers> live);

  absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(
      int64_t bytes) override;

 private:
  const uint8_t sentinel_;
  const std::shared_ptr<LiveBuffers> live_;
};

// Bytes that differ from their run's sentinel in either run. Runs of equal
// size, or -1.
int64_t TouchedBytes(const std::vector<uint8_t>& first, uint8_t first_sentinel,
                     const std::vector<uint8_t>& second,
                     uint8_t second_sentinel);

}  // namespace recurve

#endif  // RECURVE_TESTS_MEMORY_SENTINEL_BACKEND_H_
