// How a batch is divided: into micro-batches, and micro-batches among devices.
// Pure functions of their arguments. What a step computes depends on the first
// alone; the second only says where (DESIGN invariant 3).
#ifndef RECURVE_ENGINE_SCHEDULE_PARTITION_H_
#define RECURVE_ENGINE_SCHEDULE_PARTITION_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace recurve {

// Indices [begin, end).
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
  int64_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
};
inline bool operator==(Range a, Range b) {
  return a.begin == b.begin && a.end == b.end;
}

// Cuts sequences into ranges of consecutive ones: each takes sequences as long
// as their rows stay within `micro_batch_rows`, and at least one, so a longer
// sequence is alone. The ranges cover all sequences and none is empty.
// `cu_seqlens` as SequenceBatch's. REQUIRES: micro_batch_rows > 0. O(B).
std::vector<Range> PartitionMicroBatches(absl::Span<const int64_t> cu_seqlens,
                                         int64_t micro_batch_rows);

// Gives device d the micro-batches of range d of the result: consecutive
// ranges, in order of the devices, that cover them all. `speeds` has an entry
// a device, at least 1, in any unit. Minimises the largest rows / speed, to
// within one row per unit of speed; no device idles if there are enough
// micro-batches and each fits everywhere.
// O((M + devices) log(total rows)), M micro-batches.
std::vector<Range> AssignMicroBatches(absl::Span<const int64_t> rows,
                                      absl::Span<const int64_t> speeds);

// A device that may take part.
struct DeviceRoom {
  std::string name;   // for messages: devices/0
  int64_t speed = 1;  // as above
  // What it can hold of a micro-batch's activations.
  int64_t bytes = std::numeric_limits<int64_t>::max();
};

// The same within memory: micro-batch m takes rows[m] rows and bytes[m] bytes
// of activations. All or nothing: a device that cannot hold the largest
// micro-batch of the call gets none, the others share them by speed.
// ResourceExhausted, with the numbers, if no device can.
absl::StatusOr<std::vector<Range>> AssignWithinMemory(
    absl::Span<const int64_t> rows, absl::Span<const int64_t> bytes,
    absl::Span<const DeviceRoom> devices);

// Where each device's shard of `count` parameters begins, and where the last
// one ends: multiples of kParameterAlignment, of nearly equal size; some are
// empty where there are few parameters.
std::vector<int64_t> ShardOffsets(int64_t count, int num_shards);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SCHEDULE_PARTITION_H_
