#include "engine/schedule/load_window.h"

#include <algorithm>
#include <random>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

TEST(LoadWindowTest, NothingHasHappenedYet) {
  const LoadWindow window(absl::Seconds(5));
  EXPECT_EQ(window.At(absl::Seconds(5)).busy_share, 0);
  EXPECT_EQ(window.At(absl::Seconds(100)).busy_share, 0);
  EXPECT_EQ(window.At(absl::Seconds(100)).rows_per_second, 0);
}

TEST(LoadWindowTest, ADeviceThatHasJustStarted) {
  LoadWindow window(absl::Seconds(5));
  window.AddBusy(TaskClass::kServing, absl::Seconds(5), absl::Seconds(5.5));
  window.AddBusy(TaskClass::kTraining, absl::Seconds(5.5), absl::Seconds(6.5));
  window.AddRows(30, absl::Seconds(6.5));
  const Load load = window.At(absl::Seconds(7));
  EXPECT_DOUBLE_EQ(load.busy_share, 0.75);
  EXPECT_DOUBLE_EQ(load.serving_share, 0.25);
  EXPECT_DOUBLE_EQ(load.rows_per_second, 15);
}

TEST(LoadWindowTest, OneLongTaskIsAllBusy) {
  LoadWindow window(absl::ZeroDuration());
  window.AddBusy(TaskClass::kTraining, absl::Seconds(1), absl::Seconds(1000.5));
  EXPECT_DOUBLE_EQ(window.At(absl::Seconds(1000.5)).busy_share, 1);
  EXPECT_DOUBLE_EQ(window.At(absl::Seconds(1000.5)).serving_share, 0);
  EXPECT_EQ(window.At(absl::Seconds(1012)).busy_share, 0);
}

// Against a list of all that happened.
TEST(LoadWindowTest, CountsExactlyTheLastSeconds) {
  std::mt19937 random(1);
  std::uniform_real_distribution<double> length(0, 0.8);
  struct Span {
    TaskClass task_class;
    double from, to;
    int64_t rows;
  };
  std::vector<Span> spans;
  const double start = 3.25;
  LoadWindow window{absl::Seconds(start)};
  double now = start;
  for (int i = 0; i < 2000; ++i) {
    now += i % 500 == 0 ? 20 * length(random) : length(random);  // idle
    const Span span{i % 3 == 0 ? TaskClass::kServing : TaskClass::kTraining,
                    now, now + length(random), i};
    now = span.to;
    spans.push_back(span);
    window.AddBusy(span.task_class, absl::Seconds(span.from),
                   absl::Seconds(span.to));
    window.AddRows(span.rows, absl::Seconds(span.to));

    const double first =
        std::max(start, static_cast<double>(static_cast<int64_t>(now)) - 10);
    double serving = 0, all = 0, rows = 0;
    for (const Span& past : spans) {
      const double busy = std::max(0.0, past.to - std::max(past.from, first));
      all += busy;
      if (past.task_class == TaskClass::kServing) serving += busy;
      if (past.to >= first) rows += static_cast<double>(past.rows);
    }
    const Load load = window.At(absl::Seconds(now));
    ASSERT_NEAR(load.busy_share, all / (now - first), 1e-6) << i;
    ASSERT_NEAR(load.serving_share, serving / (now - first), 1e-6) << i;
    ASSERT_NEAR(load.rows_per_second, rows / (now - first), 1e-6 * rows) << i;
  }
}

}  // namespace
}  // namespace recurve
