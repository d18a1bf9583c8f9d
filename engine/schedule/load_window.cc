#include "engine/schedule/load_window.h"

#include <algorithm>

namespace recurve {
namespace {

int64_t SecondOf(absl::Duration time) { return absl::ToInt64Seconds(time); }

}  // namespace

LoadWindow::Bucket& LoadWindow::BucketOf(int64_t second) {
  Bucket& bucket = buckets_[second % buckets_.size()];
  if (bucket.second != second) {
    bucket = Bucket();
    bucket.second = second;
  }
  return bucket;
}

void LoadWindow::AddBusy(TaskClass task_class, absl::Duration from,
                         absl::Duration to) {
  from = std::max(from, absl::Seconds(SecondOf(to) - kSeconds));
  while (from < to) {
    const int64_t second = SecondOf(from);
    const absl::Duration end = std::min(to, absl::Seconds(second + 1));
    Bucket& bucket = BucketOf(second);
    (task_class == TaskClass::kServing ? bucket.serving : bucket.training) +=
        end - from;
    from = end;
  }
}

void LoadWindow::AddRows(int64_t rows, absl::Duration now) {
  BucketOf(SecondOf(now)).rows += rows;
}

Load LoadWindow::At(absl::Duration now) const {
  const int64_t first = SecondOf(now) - kSeconds;
  const double seconds =
      absl::ToDoubleSeconds(now - std::max(start_, absl::Seconds(first)));
  if (seconds <= 0) return {};
  absl::Duration serving, training;
  int64_t rows = 0;
  for (const Bucket& bucket : buckets_) {
    if (bucket.second < first) continue;
    serving += bucket.serving;
    training += bucket.training;
    rows += bucket.rows;
  }
  Load load;
  load.busy_share = absl::ToDoubleSeconds(serving + training) / seconds;
  load.serving_share = absl::ToDoubleSeconds(serving) / seconds;
  load.rows_per_second = static_cast<double>(rows) / seconds;
  return load;
}

}  // namespace recurve
