// What a device did in the last seconds, as nvidia-smi shows it. Time is a
// parameter, counted from any moment; it never goes back.
#ifndef RECURVE_ENGINE_SCHEDULE_LOAD_WINDOW_H_
#define RECURVE_ENGINE_SCHEDULE_LOAD_WINDOW_H_

#include <array>
#include <cstdint>

#include "absl/time/time.h"
#include "engine/schedule/task_class.h"

namespace recurve {

struct Load {
  double busy_share = 0;     // of the time, 0 to 1
  double serving_share = 0;  // the part of it that serving took
  double rows_per_second = 0;
};

// A copy is cheap.
class LoadWindow {
 public:
  // The window never reaches back beyond `start`.
  explicit LoadWindow(absl::Duration start) : start_(start) {}

  void AddBusy(TaskClass task_class, absl::Duration from, absl::Duration to);
  void AddRows(int64_t rows, absl::Duration now);

  // Over the ten seconds before the one that runs, and what has run of it.
  Load At(absl::Duration now) const;

 private:
  static constexpr int64_t kSeconds = 10;

  struct Bucket {
    int64_t second = -1;  // that it is of
    absl::Duration serving, training;
    int64_t rows = 0;
  };
  Bucket& BucketOf(int64_t second);

  absl::Duration start_;
  std::array<Bucket, kSeconds + 1> buckets_;  // by second modulo their number
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SCHEDULE_LOAD_WINDOW_H_
