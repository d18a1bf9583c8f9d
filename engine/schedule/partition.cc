#include "engine/schedule/partition.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/model/parameters.h"
#include "engine/schedule/format_bytes.h"

namespace recurve {
namespace {

// Whether devices d, d + 1, ... can take one each of the micro-batches from
// `first` on, within their capacities time * speed.
bool FitOneEach(absl::Span<const int64_t> rows, int64_t first,
                absl::Span<const int64_t> speeds, int64_t device,
                int64_t time) {
  const int64_t count = static_cast<int64_t>(rows.size()) - first;
  if (count > static_cast<int64_t>(speeds.size()) - device) return false;
  for (int64_t i = 0; i < count; ++i) {
    if (rows[first + i] > time * speeds[device + i]) return false;
  }
  return true;
}

// Fills the devices one after another up to time * speed rows each, which is
// possible whenever any assignment keeps within them. The last range ends
// before rows.size() if it is not.
std::vector<Range> Fill(absl::Span<const int64_t> rows,
                        absl::Span<const int64_t> speeds, int64_t time) {
  const int64_t num_rows = static_cast<int64_t>(rows.size());
  std::vector<Range> ranges;
  ranges.reserve(speeds.size());
  int64_t next = 0;
  for (size_t d = 0; d < speeds.size(); ++d) {
    const int64_t begin = next, capacity = time * speeds[d];
    int64_t load = 0;
    while (next < num_rows && load + rows[next] <= capacity) {
      // Leave the last ones to devices that would otherwise idle.
      if (next > begin && FitOneEach(rows, next, speeds, d + 1, time)) break;
      load += rows[next++];
    }
    ranges.push_back({begin, next});
  }
  return ranges;
}

absl::Status NoDeviceHolds(int64_t bytes,
                           absl::Span<const DeviceRoom> devices) {
  std::vector<std::string> rooms;
  for (const DeviceRoom& device : devices) {
    rooms.push_back(
        absl::StrCat(device.name, " has ", FormatBytes(device.bytes)));
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "no device can hold the largest micro-batch: it needs ",
      FormatBytes(bytes), " of activations, ", absl::StrJoin(rooms, ", ")));
}

}  // namespace

std::vector<Range> PartitionMicroBatches(absl::Span<const int64_t> cu_seqlens,
                                         int64_t micro_batch_rows) {
  assert(micro_batch_rows > 0);
  const int64_t num_sequences = static_cast<int64_t>(cu_seqlens.size()) - 1;
  std::vector<Range> ranges;
  for (int64_t begin = 0; begin < num_sequences;) {
    int64_t end = begin + 1;
    while (end < num_sequences &&
           cu_seqlens[end + 1] - cu_seqlens[begin] <= micro_batch_rows) {
      ++end;
    }
    ranges.push_back({begin, end});
    begin = end;
  }
  return ranges;
}

std::vector<Range> AssignMicroBatches(absl::Span<const int64_t> rows,
                                      absl::Span<const int64_t> speeds) {
  assert(!speeds.empty() &&
         *std::min_element(speeds.begin(), speeds.end()) >= 1);
  const int64_t count = static_cast<int64_t>(rows.size());
  // The smallest time in which all is taken; the first device alone can take
  // everything in the largest.
  int64_t low = 0, high = std::accumulate(rows.begin(), rows.end(), int64_t{0});
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (Fill(rows, speeds, middle).back().end == count) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return Fill(rows, speeds, low);
}

absl::StatusOr<std::vector<Range>> AssignWithinMemory(
    absl::Span<const int64_t> rows, absl::Span<const int64_t> bytes,
    absl::Span<const DeviceRoom> devices) {
  assert(rows.size() == bytes.size() && !devices.empty());
  const int64_t largest =
      bytes.empty() ? 0 : *std::max_element(bytes.begin(), bytes.end());
  std::vector<int64_t> speeds;  // of those that can hold it
  for (const DeviceRoom& device : devices) {
    if (device.bytes >= largest) speeds.push_back(device.speed);
  }
  if (speeds.empty()) return NoDeviceHolds(largest, devices);
  const std::vector<Range> shares = AssignMicroBatches(rows, speeds);
  std::vector<Range> ranges;
  int64_t begin = 0;
  for (auto share = shares.begin(); const DeviceRoom& device : devices) {
    ranges.push_back(device.bytes >= largest ? *share++ : Range{begin, begin});
    begin = ranges.back().end;
  }
  return ranges;
}

std::vector<int64_t> ShardOffsets(int64_t count, int num_shards) {
  const int64_t blocks =
      (count + kParameterAlignment - 1) / kParameterAlignment;
  std::vector<int64_t> offsets;
  for (int64_t shard = 0; shard <= num_shards; ++shard) {
    offsets.push_back(
        std::min(count, blocks * shard / num_shards * kParameterAlignment));
  }
  return offsets;
}

}  // namespace recurve
