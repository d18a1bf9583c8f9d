#include "engine/schedule/serving_share.h"

#include <algorithm>

namespace recurve {

void ServingShare::Took(TaskClass task_class, absl::Duration time) {
  lead_ +=
      task_class == TaskClass::kServing ? (1 - share_) * time : -share_ * time;
}

void ServingShare::Idle(TaskClass task_class) {
  lead_ = task_class == TaskClass::kServing
              ? std::max(lead_, absl::ZeroDuration())
              : std::min(lead_, absl::ZeroDuration());
}

}  // namespace recurve
