#include "engine/serve/batch_runner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "engine/serve/run_chunk.h"
#include "kernels/backend.h"
#include "kernels/status.h"

namespace recurve {

BatchRunner::BatchRunner(DevicePool& devices, const Options& options)
    : devices_(devices),
      options_(options),
      lines_(devices.size()),
      admits_later_(devices.size()) {
  for (int rank = 0; rank < devices_.size(); ++rank) {
    caches_.push_back(std::make_unique<ExecutorCache>(devices_.device(rank)));
  }
}

BatchRunner::~BatchRunner() {
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](int64_t* running) { return *running == 0; }, &running_));
  }
  // A device's memory is freed on its thread, before the device goes, and
  // behind what was enqueued there in either class.
  absl::BlockingCounter cleared(devices_.size());
  for (int rank = 0; rank < devices_.size(); ++rank) {
    DeviceWorker& device = devices_.device(rank);
    device.Enqueue(TaskClass::kTraining, [&, rank](Backend&) {
      device.Enqueue(TaskClass::kServing, [&, rank](Backend&) {
        caches_[rank]->Clear();
        cleared.DecrementCount();
      });
    });
  }
  cleared.Wait();
}

// --- A run's way ---

void BatchRunner::Start(BatchRun run) {
  absl::StatusOr<RunPlan> plan = PlanRun(
      devices_, options_, MemoryOwner(*run.version), *run.version->model,
      run.batch.cu_seqlens, run.call_rows, run.memory);
  if (!plan.ok()) return run.done(plan.status());
  const std::vector<int> ranks = devices_.ByLoad(plan->ranks);
  const size_t parts = std::min(ranks.size(), plan->chains.size());
  auto progress = std::make_shared<RunProgress>(
      std::move(run), *std::move(plan), static_cast<int>(parts),
      std::vector<int>(ranks.begin() + parts, ranks.end()));
  {
    absl::MutexLock lock(&mutex_);
    ++running_;
    ++uses_[progress->run.version.get()].runs;
  }
  for (size_t i = 0; i < parts; ++i) {
    Part part;
    part.progress = progress;
    part.rank = ranks[i];
    Send(std::move(part));
  }
}

void BatchRunner::Send(Part part) {
  DeviceWorker& device = devices_.device(part.rank);
  device.Enqueue(TaskClass::kServing,
                 [this, part = std::move(part)](Backend& backend) {
                   Arrive(part, backend);
                 });
}

std::vector<MemoryPlan> BatchRunner::PassMemories(
    const Model& model, absl::Span<const int64_t> cu_seqlens) const {
  return recurve::PassMemories(model, cu_seqlens, options_);
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

// Nobody overtakes those who wait, or a model that is always in use would keep
// them out.
void BatchRunner::Arrive(Part part, Backend& backend) {
  bool waits;
  {
    absl::MutexLock lock(&mutex_);
    waits = !lines_[part.rank].empty();
  }
  if (!waits || part.progress->run.memory != nullptr) {
    const Entry entry = TryEnter(part, backend);
    if (entry == Entry::kIsGone) return;
    if (entry == Entry::kBegins) return RunNext(std::move(part), backend);
    if (entry == Entry::kWaitsForRelease) EnqueueAdmission(part.rank);
  }
  part.since = absl::Now();
  absl::MutexLock lock(&mutex_);
  lines_[part.rank].push_back(std::move(part));
}

// Waits only where another model is in use: when that ends, AdmitWaiting looks
// again.
BatchRunner::Entry BatchRunner::TryEnter(Part& part, Backend& backend) {
  RunProgress& progress = *part.progress;
  ExecutorCache& cache = *caches_[part.rank];
  if (absl::Status status = progress.Check(); !status.ok()) {
    GiveUp(part, status);
    return Entry::kIsGone;
  }
  const BatchRun& run = progress.run;
  const absl::StatusOr<ExecutorCache::Slot*> slot =
      run.memory != nullptr
          ? cache.LoadWithin(run.memory->reservation, run.version, backend)
          : cache.Acquire(run.version, progress.plan.memory, backend);
  if (slot.ok()) {
    part.slot = *slot;
    if (progress.Begin(part.place)) return Entry::kBegins;
    cache.Release(part.slot);
    return Entry::kIsGone;
  }
  part.reason = std::string(slot.status().message());
  if (absl::IsAborted(slot.status())) return Entry::kWaitsForRelease;
  if (run.memory == nullptr && absl::IsResourceExhausted(slot.status()) &&
      cache.AnyInUse()) {
    return Entry::kWaits;
  }
  Refuse(part, slot.status());
  return Entry::kIsGone;
}

// Others hold this device's memory; there may be some elsewhere.
void BatchRunner::Refuse(Part part, const absl::Status& status) {
  if (absl::IsResourceExhausted(status)) {
    if (const auto rank = part.progress->TakeSpareRank()) {
      part.rank = *rank;
      return Send(std::move(part));
    }
  }
  GiveUp(part, status);
}

// One chunk, then the next behind whatever else waits for the device, so that
// a large batch holds nobody up for longer than a chunk.
void BatchRunner::RunNext(Part part, Backend& backend) {
  RunProgress& progress = *part.progress;
  absl::Status status = progress.Check();
  if (status.ok()) {
    const Chunk& chunk = progress.ChunkAt(part.place);
    status = RunChunk(progress.run, chunk, progress.StateOf(chunk),
                      ExecutorCache::ExecutorOf(*part.slot), backend);
    if (status.ok()) devices_.device(part.rank).AddRows(chunk.num_rows);
  }
  bool last = false;
  if (progress.Advance(part.place, status, &last)) {
    EnqueueNext(part);
  } else {
    caches_[part.rank]->Release(part.slot);
    if (last) Finish(progress);
  }
  AdmitWaiting(part.rank, backend);
}

void BatchRunner::EnqueueNext(Part part) {
  devices_.device(part.rank).Enqueue(
      TaskClass::kServing,
      [this, part](Backend& backend) { RunNext(part, backend); });
}

// Behind the tasks that free memory: as training's, since these may be, and so
// that it never keeps them from running.
void BatchRunner::EnqueueAdmission(int rank) {
  if (std::exchange(admits_later_[rank], true)) return;
  devices_.device(rank).Enqueue(TaskClass::kTraining,
                                [this, rank](Backend& backend) {
                                  admits_later_[rank] = false;
                                  AdmitWaiting(rank, backend);
                                });
}

// In turn, as far as there is room.
void BatchRunner::AdmitWaiting(int rank, Backend& backend) {
  DropUnwanted(rank);
  for (;;) {
    Part first;
    {
      absl::MutexLock lock(&mutex_);
      if (lines_[rank].empty()) return;
      first = lines_[rank].front();
    }
    const Entry entry = TryEnter(first, backend);
    if (entry == Entry::kBegins) EnqueueNext(first);
    if (entry == Entry::kWaitsForRelease) EnqueueAdmission(rank);
    absl::MutexLock lock(&mutex_);
    if (entry == Entry::kWaits || entry == Entry::kWaitsForRelease) {
      lines_[rank].front().reason = first.reason;
      return;
    }
    lines_[rank].pop_front();
  }
}

// Those in line whose caller has gone or whose work others have done.
void BatchRunner::DropUnwanted(int rank) {
  std::vector<Part> unwanted;
  {
    absl::MutexLock lock(&mutex_);
    std::deque<Part> wanted;
    for (Part& part : lines_[rank]) {
      const bool is_wanted =
          part.progress->HasWork() && part.progress->Check().ok();
      if (is_wanted) {
        wanted.push_back(std::move(part));
      } else {
        unwanted.push_back(std::move(part));
      }
    }
    lines_[rank] = std::move(wanted);
  }
  for (const Part& part : unwanted) GiveUp(part, part.progress->Check());
}

void BatchRunner::GiveUp(const Part& part, const absl::Status& status) {
  if (part.progress->GiveUp(status)) Finish(*part.progress);
}

std::vector<WaitingRequest> BatchRunner::Waiting(int rank) const {
  absl::MutexLock lock(&mutex_);
  std::vector<WaitingRequest> waiting;
  for (const Part& part : lines_[rank]) {
    const RunProgress& progress = *part.progress;
    waiting.push_back({MemoryOwner(*progress.run.version), progress.plan.memory,
                       part.reason, part.since});
    if (waiting.size() == 1) continue;
    waiting.back().reason =
        absl::StrCat(waiting.size() - 1, " in line before it");
  }
  return waiting;
}

void BatchRunner::Finish(RunProgress& progress) {
  BatchRun& run = progress.run;
  Release(*run.version);
  if (const absl::Status status = progress.status(); !status.ok()) {
    run.done(status);
  } else {
    run.done(run.want_state ? std::move(run.state) : std::vector<float>());
  }
  absl::MutexLock lock(&mutex_);
  --running_;
}

void BatchRunner::Release(const ModelVersion& version) {
  {
    absl::MutexLock lock(&mutex_);
    const auto use = uses_.find(&version);
    if (--use->second.runs > 0) return;
    const bool drop = use->second.drop;
    uses_.erase(use);
    if (!drop) return;
  }
  DropNow(version);
}

void BatchRunner::Drop(const ModelVersion& version) {
  {
    absl::MutexLock lock(&mutex_);
    if (const auto use = uses_.find(&version); use != uses_.end()) {
      use->second.drop = true;
      return;
    }
  }
  DropNow(version);
}

void BatchRunner::DropNow(const ModelVersion& version) {
  for (int rank = 0; rank < devices_.size(); ++rank) {
    // By address alone: the version may be gone when the task runs.
    devices_.device(rank).Enqueue(
        TaskClass::kServing, [cache = caches_[rank].get(), address = &version](
                                 Backend&) { cache->Drop(*address); });
  }
}

}  // namespace recurve
