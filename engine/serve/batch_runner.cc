#include "engine/serve/batch_runner.h"

#include <algorithm>
#include <utility>

#include "absl/synchronization/notification.h"
#include "engine/serve/run_chunk.h"
#include "kernels/backend.h"

namespace recurve {

// Chunk after chunk, each behind whatever else waits for the device, so that a
// large batch holds nobody up for longer than a chunk.
class BatchRunner::Part final : public DeviceWork {
 public:
  Part(BatchRunner& runner, std::shared_ptr<RunProgress> progress, int rank)
      : runner_(runner), progress_(std::move(progress)), rank_(rank) {}

  ModelHandle version() const override { return progress_->run.version; }
  MemoryPlan memory() const override { return progress_->plan.memory; }
  const HeldMemory* held() const override { return progress_->run.memory; }

  absl::Status Check() override { return progress_->Check(); }
  bool IsWanted() override {
    return progress_->HasWork() && progress_->Check().ok();
  }

  bool Begin() override { return progress_->Begin(place_); }
  bool Run(Executor& executor, Backend& backend) override {
    absl::Status status = progress_->Check();
    if (status.ok()) {
      const Chunk& chunk = progress_->ChunkAt(place_);
      status = RunChunk(progress_->run, chunk, progress_->CarriesOf(chunk),
                        executor, backend);
      if (status.ok()) device().AddRows(chunk.num_rows);
    }
    return progress_->Advance(place_, status, &last_);
  }
  void End() override {
    if (last_) runner_.Finish(*progress_);
  }
  // Others hold this device's memory; there may be some elsewhere.
  void Refuse(const absl::Status& status, Backend&) override {
    if (absl::IsResourceExhausted(status)) {
      if (const auto rank = progress_->TakeSpareRank()) {
        return runner_.Send(progress_, *rank);
      }
    }
    if (progress_->GiveUp(status)) runner_.Finish(*progress_);
  }

 private:
  DeviceWorker& device() { return runner_.admission_.devices().device(rank_); }

  BatchRunner& runner_;
  const std::shared_ptr<RunProgress> progress_;
  const int rank_;
  RunProgress::Place place_;
  bool last_ = false;
};

BatchRunner::BatchRunner(DevicePool& devices, const Options& options)
    : options_(options), admission_(devices) {}

BatchRunner::~BatchRunner() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](int64_t* running) { return *running == 0; }, &running_));
}

void BatchRunner::Start(BatchRun run) {
  DevicePool& devices = admission_.devices();
  absl::StatusOr<RunPlan> plan =
      PlanRun(devices, options_, *run.version, run.batch.cu_seqlens,
              run.call_rows, run.memory);
  if (!plan.ok()) return run.done(plan.status());
  const std::vector<int> ranks = devices.ByLoad(plan->ranks);
  const size_t parts = std::min(ranks.size(), plan->chains.size());
  const auto progress = std::make_shared<RunProgress>(
      std::move(run), *std::move(plan), static_cast<int>(parts),
      std::vector<int>(ranks.begin() + parts, ranks.end()));
  {
    absl::MutexLock lock(&mutex_);
    ++running_;
  }
  admission_.AddUse(*progress->run.version);
  for (size_t i = 0; i < parts; ++i) Send(progress, ranks[i]);
}

void BatchRunner::Send(std::shared_ptr<RunProgress> progress, int rank) {
  admission_.Submit(rank,
                    std::make_shared<Part>(*this, std::move(progress), rank));
}

std::vector<MemoryPlan> BatchRunner::PassMemories(
    const Model& model, absl::Span<const int64_t> cu_seqlens) const {
  return recurve::PassMemories(admission_.devices(), model, cu_seqlens,
                               options_);
}

absl::StatusOr<std::vector<float>> BatchRunner::RunAndWait(BatchRun run) {
  absl::StatusOr<std::vector<float>> result;
  absl::Notification finished;
  run.done = [&](absl::StatusOr<std::vector<float>> state) {
    result = std::move(state);
    finished.Notify();
  };
  Start(std::move(run));
  finished.WaitForNotification();
  return result;
}

void BatchRunner::Finish(RunProgress& progress) {
  BatchRun& run = progress.run;
  admission_.RemoveUse(*run.version);
  if (const absl::Status status = progress.status(); !status.ok()) {
    run.done(status);
  } else {
    run.done(run.want_state ? progress.TakeStates() : std::vector<float>());
  }
  absl::MutexLock lock(&mutex_);
  --running_;
}

std::vector<WaitingRequest> BatchRunner::Waiting(int rank) const {
  return admission_.Waiting(rank);
}

void BatchRunner::Drop(const ModelVersion& version) {
  admission_.Drop(version);
}

}  // namespace recurve
