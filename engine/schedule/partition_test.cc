#include "engine/schedule/partition.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {

void PrintTo(const Range& range, std::ostream* out) {
  *out << "[" << range.begin << ", " << range.end << ")";
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int64_t> CuSeqlens(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> cu_seqlens = {0};
  for (int64_t length : lengths) {
    cu_seqlens.push_back(cu_seqlens.back() + length);
  }
  return cu_seqlens;
}

std::vector<int64_t> RandomNumbers(std::mt19937& random, int count, int least,
                                   int most) {
  std::uniform_int_distribution<int64_t> draw(least, most);
  std::vector<int64_t> numbers(count);
  for (int64_t& number : numbers) number = draw(random);
  return numbers;
}

TEST(PartitionMicroBatches, TakesSequencesInOrderUpToTheLimit) {
  EXPECT_THAT(PartitionMicroBatches(CuSeqlens({4, 3, 3, 5, 6}), 10),
              ElementsAre(Range{0, 3}, Range{3, 4}, Range{4, 5}));
}

TEST(PartitionMicroBatches, LongSequenceIsAlone) {
  EXPECT_THAT(PartitionMicroBatches(CuSeqlens({1, 11, 1, 25, 10}), 10),
              ElementsAre(Range{0, 1}, Range{1, 2}, Range{2, 3}, Range{3, 4},
                          Range{4, 5}));
}

TEST(PartitionMicroBatches, NoSequencesGiveNoMicroBatches) {
  EXPECT_THAT(PartitionMicroBatches(CuSeqlens({}), 10), IsEmpty());
}

TEST(PartitionMicroBatches, CoversGreedilyWithinTheLimit) {
  std::mt19937 random(1);
  for (int round = 0; round < 500; ++round) {
    const auto lengths = RandomNumbers(random, 1 + round % 40, 0, 30);
    const auto cu_seqlens = CuSeqlens(lengths);
    const int64_t limit = 1 + round % 50;
    int64_t next = 0;
    for (const Range range : PartitionMicroBatches(cu_seqlens, limit)) {
      ASSERT_EQ(range.begin, next);
      ASSERT_LT(range.begin, range.end);
      if (range.size() > 1) {
        ASSERT_LE(cu_seqlens[range.end] - cu_seqlens[range.begin], limit);
      }
      if (range.end < static_cast<int64_t>(lengths.size())) {
        ASSERT_GT(cu_seqlens[range.end + 1] - cu_seqlens[range.begin], limit);
      }
      next = range.end;
    }
    ASSERT_EQ(next, static_cast<int64_t>(lengths.size()));
  }
}

TEST(AssignMicroBatches, BalancesRows) {
  EXPECT_THAT(AssignMicroBatches({5000, 1000, 1000, 1000, 1000, 1000}, {1, 1}),
              ElementsAre(Range{0, 1}, Range{1, 6}));
  EXPECT_THAT(AssignMicroBatches({1, 1, 1, 1}, {1, 1, 1}),
              ElementsAre(Range{0, 2}, Range{2, 3}, Range{3, 4}));
  EXPECT_THAT(AssignMicroBatches({6, 6, 6}, {2, 1}),
              ElementsAre(Range{0, 2}, Range{2, 3}));
}

TEST(AssignMicroBatches, SomeDevicesGetNoneWhenThereAreTooFew) {
  EXPECT_THAT(AssignMicroBatches({7, 9}, {1, 1, 1, 1}),
              ElementsAre(Range{0, 1}, Range{1, 2}, Range{2, 2}, Range{2, 2}));
  EXPECT_THAT(AssignMicroBatches({}, {1, 1}),
              ElementsAre(Range{0, 0}, Range{0, 0}));
}

TEST(AssignMicroBatches, MicroBatchesWithoutRowsAreAssignedToo) {
  const auto ranges = AssignMicroBatches({0, 0, 3, 0}, {1, 1});
  EXPECT_EQ(ranges.front().begin, 0);
  EXPECT_EQ(ranges.front().end, ranges.back().begin);
  EXPECT_EQ(ranges.back().end, 4);
}

// The smallest reachable maximum of rows / speed, by trying every cut.
double BestTime(absl::Span<const int64_t> rows,
                absl::Span<const int64_t> speeds) {
  if (speeds.empty()) {
    return rows.empty() ? 0 : std::numeric_limits<double>::infinity();
  }
  double best = std::numeric_limits<double>::infinity();
  int64_t load = 0;
  for (size_t taken = 0; taken <= rows.size(); ++taken) {
    if (taken > 0) load += rows[taken - 1];
    best = std::min(
        best,
        std::max(static_cast<double>(load) / static_cast<double>(speeds[0]),
                 BestTime(rows.subspan(taken), speeds.subspan(1))));
  }
  return best;
}

double Time(const std::vector<int64_t>& rows,
            const std::vector<int64_t>& speeds,
            const std::vector<Range>& ranges) {
  double time = 0;
  for (size_t d = 0; d < ranges.size(); ++d) {
    int64_t load = 0;
    for (int64_t i = ranges[d].begin; i < ranges[d].end; ++i) load += rows[i];
    time = std::max(time,
                    static_cast<double>(load) / static_cast<double>(speeds[d]));
  }
  return time;
}

TEST(AssignMicroBatches, IsBestOfAllContiguousAssignments) {
  std::mt19937 random(2);
  for (int round = 0; round < 400; ++round) {
    const auto rows = RandomNumbers(random, round % 11, 0, 20);
    std::vector<int64_t> speeds(1 + round % 4, 1);
    const auto ranges = AssignMicroBatches(rows, speeds);
    ASSERT_EQ(Time(rows, speeds, ranges), BestTime(rows, speeds));
    speeds = RandomNumbers(random, 1 + round % 4, 1, 8);
    // The search is over whole units of time.
    ASSERT_LT(Time(rows, speeds, AssignMicroBatches(rows, speeds)),
              BestTime(rows, speeds) + 1);
  }
}

TEST(AssignMicroBatches, CoversInOrderAndNobodyIdlesNeedlessly) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    const auto rows = RandomNumbers(random, 1 + round % 40, 1, 1000);
    const std::vector<int64_t> speeds(1 + round % 8, 1);
    int64_t next = 0;
    const auto ranges = AssignMicroBatches(rows, speeds);
    ASSERT_EQ(ranges.size(), speeds.size());
    for (const Range range : ranges) {
      ASSERT_EQ(range.begin, next);
      ASSERT_LE(range.begin, range.end);
      if (rows.size() >= speeds.size()) {
        ASSERT_FALSE(range.empty());
      }
      next = range.end;
    }
    ASSERT_EQ(next, static_cast<int64_t>(rows.size()));
  }
}

// --- Within memory ---

std::vector<DeviceRoom> Rooms(const std::vector<int64_t>& speeds,
                              const std::vector<int64_t>& bytes) {
  std::vector<DeviceRoom> rooms;
  for (size_t d = 0; d < speeds.size(); ++d) {
    rooms.push_back({"devices/" + std::to_string(d), speeds[d], bytes[d]});
  }
  return rooms;
}

TEST(AssignWithinMemory, DevicesWithoutRoomGetNone) {
  EXPECT_THAT(*AssignWithinMemory({5, 5, 5, 5}, {50, 70, 50, 50},
                                  Rooms({1, 9, 1, 9}, {70, 69, 100, 0})),
              ElementsAre(Range{0, 2}, Range{2, 2}, Range{2, 4}, Range{4, 4}));
  EXPECT_THAT(*AssignWithinMemory({}, {}, Rooms({1, 1}, {0, 0})),
              ElementsAre(Range{0, 0}, Range{0, 0}));
}

TEST(AssignWithinMemory, SaysWhatNoDeviceCanHold) {
  EXPECT_EQ(
      AssignWithinMemory({5, 5}, {3 << 20, 4 << 20},
                         Rooms({1, 1}, {1 << 20, 2 << 20}))
          .status(),
      absl::ResourceExhaustedError(
          "no device can hold the largest micro-batch: it needs 4.0 MiB of "
          "activations, devices/0 has 1.0 MiB, devices/1 has 2.0 MiB"));
}

// Against trying every cut, among the devices that can hold everything.
TEST(AssignWithinMemory, IsBestOfAllThatKeepWithinMemory) {
  std::mt19937 random(4);
  for (int round = 0; round < 400; ++round) {
    const auto rows = RandomNumbers(random, 1 + round % 9, 0, 20);
    const auto bytes = RandomNumbers(random, 1 + round % 9, 0, 20);
    const int devices = 1 + round % 5;
    const auto speeds = RandomNumbers(random, devices, 1, 3);
    const auto rooms = RandomNumbers(random, devices, 5, 30);
    const int64_t largest = *std::max_element(bytes.begin(), bytes.end());
    std::vector<int64_t> able;
    for (int d = 0; d < devices; ++d) {
      if (rooms[d] >= largest) able.push_back(speeds[d]);
    }
    const auto ranges = AssignWithinMemory(rows, bytes, Rooms(speeds, rooms));
    ASSERT_EQ(ranges.ok(), !able.empty());
    if (!ranges.ok()) continue;
    int64_t next = 0;
    for (int d = 0; d < devices; ++d) {
      const Range range = (*ranges)[d];
      ASSERT_EQ(range.begin, next);
      if (rooms[d] < largest) {
        ASSERT_TRUE(range.empty());
      }
      next = range.end;
    }
    ASSERT_EQ(next, static_cast<int64_t>(rows.size()));
    ASSERT_LT(Time(rows, speeds, *ranges), BestTime(rows, able) + 1);
  }
}

TEST(ShardOffsets, AreAlignedAndNearlyEqual) {
  EXPECT_THAT(ShardOffsets(160, 1), ElementsAre(0, 160));
  EXPECT_THAT(ShardOffsets(160, 3), ElementsAre(0, 48, 96, 160));
  EXPECT_THAT(ShardOffsets(40, 2), ElementsAre(0, 16, 40));
  // Fewer blocks than devices.
  EXPECT_THAT(ShardOffsets(32, 4), ElementsAre(0, 0, 16, 16, 32));
  EXPECT_THAT(ShardOffsets(0, 2), ElementsAre(0, 0, 0));
}

}  // namespace
}  // namespace recurve
