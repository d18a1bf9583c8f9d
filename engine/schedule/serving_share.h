// Whether serving or training goes next where both wait for a device: decided
// by the time that each has had, and by nothing else. No clock, no thread.
#ifndef RECURVE_ENGINE_SCHEDULE_SERVING_SHARE_H_
#define RECURVE_ENGINE_SCHEDULE_SERVING_SHARE_H_

#include "absl/time/time.h"
#include "engine/schedule/task_class.h"

namespace recurve {

// Serving goes first until it has had its share of the time in which both
// classes had work; then training has its turn. While both have work all the
// time, neither is ahead of its share by more than its own longest task.
class ServingShare {
 public:
  // REQUIRES: 0 < share <= 1. With 1, training has its turn only where no
  // serving waits.
  explicit ServingShare(double share) : share_(share) {}

  // Whom of the two to take when both wait.
  bool ServesNext() const { return lead_ <= absl::ZeroDuration(); }

  // The class ran for this long while the other had work too.
  void Took(TaskClass task_class, absl::Duration time);
  // The class has nothing to do: what it is behind its share is forgotten, for
  // it did not want it.
  void Idle(TaskClass task_class);

 private:
  const double share_;
  // Serving's time beyond its share of both; training's if negative.
  absl::Duration lead_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SCHEDULE_SERVING_SHARE_H_
