#include "engine/serve/version_loader.h"

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/blocking_counter.h"
#include "engine/schedule/device.h"
#include "engine/schedule/task_class.h"
#include "engine/serve/executor_cache.h"
#include "kernels/backend.h"
#include "kernels/status.h"

namespace recurve {
namespace {

absl::StatusOr<RunPlan> PlanOf(DevicePool& devices, const RunLimits& limits,
                               const ModelVersion& version) {
  constexpr int64_t kOneRow[] = {0, 1};  // as short a request as there is
  return PlanRun(devices, limits, version, kOneRow, /*call_rows=*/0,
                 /*held=*/nullptr);
}

// One version on its way to several devices.
class Loading {
 public:
  Loading(ModelAdmission& admission, ModelHandle version, RunPlan plan)
      : admission_(admission),
        version_(std::move(version)),
        plan_(std::move(plan)),
        results_(plan_.ranks.size()),
        pending_(static_cast<int>(plan_.ranks.size())) {}

  absl::Status Run() {
    for (size_t i = 0; i < results_.size(); ++i) {
      Try(i, TaskClass::kServing);
    }
    pending_.Wait();
    const absl::Status outcome = Outcome();
    if (!outcome.ok()) TakeBack();
    return outcome;
  }

 private:
  DeviceWorker& device(size_t i) {
    return admission_.devices().device(plan_.ranks[i]);
  }
  ExecutorCache& cache(size_t i) { return admission_.cache(plan_.ranks[i]); }

  // Again behind the tasks that free memory, which may be training's.
  void Try(size_t i, TaskClass task_class) {
    device(i).Enqueue(task_class, [this, i](Backend& backend) {
      results_[i] = cache(i).Pin(version_, plan_.memory, backend);
      if (absl::IsAborted(results_[i].status())) {
        return Try(i, TaskClass::kTraining);
      }
      pending_.DecrementCount();
    });
  }

  // A device without room is no error where another has some.
  absl::Status Outcome() const {
    absl::Status no_room;
    bool loaded = false;
    for (const absl::StatusOr<bool>& result : results_) {
      if (result.ok()) {
        loaded = true;
      } else if (!absl::IsResourceExhausted(result.status())) {
        return result.status();
      } else {
        no_room.Update(result.status());
      }
    }
    return loaded ? absl::OkStatus() : no_room;
  }

  void TakeBack() {
    for (size_t i = 0; i < results_.size(); ++i) {
      if (results_[i].ok() && *results_[i]) cache(i).Unpin(*version_);
    }
  }

  ModelAdmission& admission_;
  const ModelHandle version_;
  const RunPlan plan_;
  // Whether it was not kept there before; each its device's thread's.
  std::vector<absl::StatusOr<bool>> results_;
  absl::BlockingCounter pending_;
};

}  // namespace

absl::Status VersionLoader::Load(const ModelHandle& version) {
  ASSIGN_OR_RETURN(RunPlan plan,
                   PlanOf(admission_.devices(), limits_, *version));
  admission_.Keep(*version);
  return Loading(admission_, version, std::move(plan)).Run();
}

absl::Status VersionLoader::CheckFits(const ModelVersion& version) const {
  return PlanOf(admission_.devices(), limits_, version).status();
}

}  // namespace recurve
