#include "engine/serve/serving_statistics.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;

TEST(ServingStatisticsTest, CountsWhatHappensToRequests) {
  ServingStatistics all;
  const auto a = all.Of("models/a/versions/1");
  const absl::Time now = absl::FromUnixSeconds(7);
  for (int i = 0; i < 4; ++i) a->Entered(now);
  a->Refused();
  a->Left({.status = absl::OkStatus(),
           .total = absl::Seconds(5),
           .queue = absl::Seconds(1),
           .passes = {absl::Seconds(2), absl::Seconds(3), absl::Seconds(4)},
           .sequences = 6});
  a->Left({.status = absl::CancelledError(), .total = absl::Seconds(1)});
  a->Left({.status = absl::InternalError(""), .total = absl::Seconds(2)});

  const ServingCounts counts = all.SnapshotOf("models/a/versions/1");
  EXPECT_EQ(counts.succeeded.count, 1);
  EXPECT_EQ(counts.succeeded.time, absl::Seconds(5));
  EXPECT_EQ(counts.failed.count, 2);
  EXPECT_EQ(counts.failed.time, absl::Seconds(3));
  EXPECT_EQ(counts.cancelled, 1);
  EXPECT_EQ(counts.refused, 1);
  EXPECT_EQ(counts.queue.time, absl::Seconds(1));
  EXPECT_EQ(counts.input.time, absl::Seconds(2));
  EXPECT_EQ(counts.infer.time, absl::Seconds(3));
  EXPECT_EQ(counts.output.time, absl::Seconds(4));
  EXPECT_EQ(counts.infer.count, 1);
  EXPECT_EQ(counts.sequences, 6);
  EXPECT_EQ(counts.pending, 1);
  EXPECT_EQ(counts.last_request, now);
}

TEST(ServingStatisticsTest, PassesAreCountedByTheirSize) {
  ServingStatistics all;
  const auto a = all.Of("a");
  const PassTimes times = {absl::Seconds(1), absl::Seconds(2),
                           absl::Seconds(3)};
  for (int64_t rows : {1, 2, 3, 4, 5, 1024}) a->Passed(rows, times);
  const ServingCounts counts = a->Snapshot();
  EXPECT_EQ(counts.passes, 6);
  EXPECT_EQ(counts.rows, 1039);
  EXPECT_THAT(counts.passes_by_rows,
              ElementsAre(Key(1), Key(2), Key(4), Key(8), Key(1024)));
  EXPECT_EQ(counts.passes_by_rows.at(4).passes, 2);
  EXPECT_EQ(counts.passes_by_rows.at(4).times.infer, absl::Seconds(4));
}

TEST(ServingStatisticsTest, AVersionThatIsForgottenBeginsAnew) {
  ServingStatistics all;
  all.Of("a")->Refused();
  EXPECT_THAT(all.Snapshot(), ElementsAre(Key("a")));
  all.Forget("a");
  EXPECT_THAT(all.Snapshot(), IsEmpty());
  EXPECT_EQ(all.SnapshotOf("a").refused, 0);
}

}  // namespace
}  // namespace recurve
