// Collectives between the devices of one group. Every rank's thread makes the
// same calls in the same order; a call returns when this rank's part is done
// and its buffers may be reused. Counts are floats, buffers device memory.
//
// Errors: whatever Abort was given, on every rank, from then on.
#ifndef RECURVE_KERNELS_COMMUNICATOR_H_
#define RECURVE_KERNELS_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace recurve {

class Communicator {
 public:
  struct Send {
    const float* data = nullptr;
    int64_t count = 0;
  };
  struct Receive {
    float* data = nullptr;
    int64_t count = 0;
  };

  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;

  // Direct exchange: sends[r] goes to rank r, receives[r] comes from rank r.
  // The counts of matching ends must agree; own slot included (a copy).
  virtual absl::Status Exchange(absl::Span<const Send> sends,
                                absl::Span<const Receive> receives) = 0;
  // Rank r contributes data[offsets[r], offsets[r + 1]); afterwards all of data
  // is the same on every rank. offsets has world_size + 1 entries.
  virtual absl::Status AllGather(float* data,
                                 absl::Span<const int64_t> offsets) = 0;
  virtual absl::Status Broadcast(float* data, int64_t count, int root) = 0;
  virtual absl::Status Barrier() = 0;
  // Makes every pending and later call on every rank return `status`.
  // Thread-safe.
  virtual void Abort(absl::Status status) = 0;
};

// Ranks 0..world_size-1 as threads of this process that share memory.
std::vector<std::unique_ptr<Communicator>> CreateLocalCommunicators(
    int world_size);

}  // namespace recurve

#endif  // RECURVE_KERNELS_COMMUNICATOR_H_
