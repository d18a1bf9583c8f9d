#include "engine/serve/model_admission.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/time/clock.h"

namespace recurve {

ModelAdmission::ModelAdmission(DevicePool& devices)
    : devices_(devices), lines_(devices.size()), admits_later_(devices.size()) {
  for (int rank = 0; rank < devices_.size(); ++rank) {
    caches_.push_back(std::make_unique<ExecutorCache>(devices_.device(rank)));
  }
}

// A device's memory is freed on its thread, before the device goes, and behind
// what was enqueued there in either class.
ModelAdmission::~ModelAdmission() {
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

// --- Some work's way ---

void ModelAdmission::Submit(int rank, std::shared_ptr<DeviceWork> work) {
  Visit visit;
  visit.version = work->version();
  visit.work = std::move(work);
  visit.rank = rank;
  devices_.device(rank).Enqueue(
      TaskClass::kServing,
      [this, visit = std::move(visit)](Backend& backend) mutable {
        Arrive(std::move(visit), backend);
      });
}

// Nobody overtakes those who wait, or a model that is always in use would keep
// them out.
void ModelAdmission::Arrive(Visit visit, Backend& backend) {
  if (!HasLine(visit.rank) || visit.work->held() != nullptr) {
    const Entry entry = TryEnter(visit, backend);
    if (entry == Entry::kIsGone) return;
    if (entry == Entry::kBegins) return RunNext(std::move(visit), backend);
    if (entry == Entry::kWaitsForRelease) EnqueueAdmission(visit.rank);
  }
  visit.since = absl::Now();
  absl::MutexLock lock(&mutex_);
  lines_[visit.rank].push_back(std::move(visit));
}

// Waits only where another model is in use: when that ends, AdmitWaiting looks
// again.
ModelAdmission::Entry ModelAdmission::TryEnter(Visit& visit, Backend& backend) {
  DeviceWork& work = *visit.work;
  ExecutorCache& cache = *caches_[visit.rank];
  if (absl::Status status = work.Check(); !status.ok()) {
    work.Refuse(status, backend);
    return Entry::kIsGone;
  }
  const HeldMemory* const held = work.held();
  const absl::StatusOr<ExecutorCache::Slot*> slot =
      held != nullptr
          ? cache.LoadWithin(held->reservation, visit.version, backend)
          : cache.Acquire(visit.version, work.memory(), backend);
  if (slot.ok()) {
    visit.slot = *slot;
    if (work.Begin()) return Entry::kBegins;
    cache.Release(visit.slot);
    work.End();
    return Entry::kIsGone;
  }
  visit.reason = std::string(slot.status().message());
  if (absl::IsAborted(slot.status())) return Entry::kWaitsForRelease;
  if (held == nullptr && absl::IsResourceExhausted(slot.status()) &&
      cache.AnyInUse()) {
    return Entry::kWaits;
  }
  work.Refuse(slot.status(), backend);
  return Entry::kIsGone;
}

void ModelAdmission::RunNext(Visit visit, Backend& backend) {
  const int rank = visit.rank;
  if (visit.work->Run(ExecutorCache::ExecutorOf(*visit.slot), backend)) {
    EnqueueNext(std::move(visit));
  } else {
    caches_[rank]->Release(visit.slot);
    visit.work->End();
  }
  AdmitWaiting(rank, backend);
}

void ModelAdmission::EnqueueNext(Visit visit) {
  DeviceWorker& device = devices_.device(visit.rank);
  device.Enqueue(TaskClass::kServing,
                 [this, visit = std::move(visit)](Backend& backend) mutable {
                   RunNext(std::move(visit), backend);
                 });
}

// Behind the tasks that free memory: as training's, since these may be, and so
// that it never keeps them from running.
void ModelAdmission::EnqueueAdmission(int rank) {
  if (std::exchange(admits_later_[rank], true)) return;
  devices_.device(rank).Enqueue(TaskClass::kTraining,
                                [this, rank](Backend& backend) {
                                  admits_later_[rank] = false;
                                  AdmitWaiting(rank, backend);
                                });
}

// In turn, as far as there is room.
void ModelAdmission::AdmitWaiting(int rank, Backend& backend) {
  if (!HasLine(rank)) return;
  DropUnwanted(rank, backend);
  for (;;) {
    Visit first;
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

// Those in line whose caller has gone or whose work others have done. Work is
// never called with the lock: it may ask for something here under one of its
// own.
void ModelAdmission::DropUnwanted(int rank, Backend& backend) {
  std::deque<Visit> line, unwanted;
  {
    absl::MutexLock lock(&mutex_);
    line = lines_[rank];
  }
  for (Visit& visit : line) {
    if (!visit.work->IsWanted()) unwanted.push_back(std::move(visit));
  }
  {
    absl::MutexLock lock(&mutex_);
    std::deque<Visit>& wanted = lines_[rank];
    size_t i = 0;
    wanted.erase(
        std::remove_if(wanted.begin(), wanted.end(),
                       [&](const Visit&) { return line[i++].work == nullptr; }),
        wanted.end());
  }
  for (const Visit& visit : unwanted) {
    visit.work->Refuse(visit.work->Check(), backend);
  }
}

std::vector<WaitingRequest> ModelAdmission::Waiting(int rank) const {
  std::deque<Visit> line;
  {
    absl::MutexLock lock(&mutex_);
    line = lines_[rank];
  }
  std::vector<WaitingRequest> waiting;
  for (const Visit& visit : line) {
    waiting.push_back({MemoryOwner(*visit.version), visit.work->memory(),
                       visit.reason, visit.since});
    if (waiting.size() == 1) continue;
    waiting.back().reason =
        absl::StrCat(waiting.size() - 1, " in line before it");
  }
  return waiting;
}

bool ModelAdmission::HasLine(int rank) const {
  absl::MutexLock lock(&mutex_);
  return !lines_[rank].empty();
}

// --- Versions in use ---

void ModelAdmission::AddUse(const ModelVersion& version) {
  absl::MutexLock lock(&mutex_);
  ++uses_[&version].count;
}

void ModelAdmission::RemoveUse(const ModelVersion& version) {
  {
    absl::MutexLock lock(&mutex_);
    const auto use = uses_.find(&version);
    if (--use->second.count > 0) return;
    const bool drop = use->second.drop;
    uses_.erase(use);
    if (!drop) return;
  }
  DropNow(version);
}

void ModelAdmission::Drop(const ModelVersion& version) {
  {
    absl::MutexLock lock(&mutex_);
    if (const auto use = uses_.find(&version); use != uses_.end()) {
      use->second.drop = true;
      return;
    }
  }
  DropNow(version);
}

void ModelAdmission::Keep(const ModelVersion& version) {
  absl::MutexLock lock(&mutex_);
  const auto use = uses_.find(&version);
  if (use != uses_.end()) use->second.drop = false;
}

void ModelAdmission::DropNow(const ModelVersion& version) {
  for (int rank = 0; rank < devices_.size(); ++rank) {
    // By address alone: the version may be gone when the task runs.
    devices_.device(rank).Enqueue(
        TaskClass::kServing, [cache = caches_[rank].get(), address = &version](
                                 Backend&) { cache->Drop(*address); });
  }
}

}  // namespace recurve
