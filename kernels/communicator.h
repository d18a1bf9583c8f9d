// Collectives between the devices of one group. Every rank's thread makes the
// same calls in the same order; a call returns when this rank's part is done
// and its buffers may be reused. Counts are floats; buffers are memory of the
// rank's device, whose backend every call is given. A collective comes after
// what the backends were given before, and waits for it.
//
// Errors: whatever Abort was given, on every rank, from then on; a device that
// fails within a collective aborts the group.
#ifndef RECURVE_KERNELS_COMMUNICATOR_H_
#define RECURVE_KERNELS_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/backend.h"

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
  virtual absl::Status Exchange(Backend& backend, absl::Span<const Send> sends,
                                absl::Span<const Receive> receives) = 0;
  // Rank r contributes data[offsets[r], offsets[r + 1]); afterwards all of data
  // is the same on every rank. offsets has world_size + 1 entries.
  virtual absl::Status AllGather(Backend& backend, float* data,
                                 absl::Span<const int64_t> offsets) = 0;
  virtual absl::Status Barrier() = 0;
  // Makes every pending and later call on every rank return `status`.
  // Thread-safe.
  virtual void Abort(absl::Status status) = 0;
  // What the first Abort was given; OK before. Thread-safe.
  virtual absl::Status status() const = 0;
};

// Ranks 0..world_size-1 as threads of this process whose backends can copy from
// each other's memory: CPU devices, or CUDA devices of this process, one GPU
// named twice among them.
std::vector<std::unique_ptr<Communicator>> CreateLocalCommunicators(
    int world_size);

}  // namespace recurve

#endif  // RECURVE_KERNELS_COMMUNICATOR_H_
