#include "engine/serve/batch_runner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// The chunk's rows as a batch of its own.
SequenceBatch Slice(const SequenceBatch& batch, const Chunk& chunk,
                    int64_t feature_size) {
  SequenceBatch slice;
  const int64_t end = chunk.first_row + chunk.num_rows;
  slice.cu_seqlens.clear();
  for (int64_t b = 0; b <= chunk.num_sequences; ++b) {
    const int64_t offset = batch.cu_seqlens[chunk.first_sequence + b];
    slice.cu_seqlens.push_back(std::clamp(offset, chunk.first_row, end) -
                               chunk.first_row);
  }
  if (feature_size == 0) {
    slice.tokens.assign(batch.tokens.begin() + chunk.first_row,
                        batch.tokens.begin() + end);
  } else {
    slice.features.assign(
        batch.features.begin() + chunk.first_row * feature_size,
        batch.features.begin() + end * feature_size);
  }
  return slice;
}

absl::Status Download(Backend& backend, Matrix<const float> from, float* to) {
  if (from.stride == from.cols) {
    return backend.Download(to, from.data,
                            from.rows * from.cols * sizeof(float));
  }
  for (int64_t r = 0; r < from.rows; ++r) {
    RETURN_IF_ERROR(backend.Download(to + r * from.cols, from.row(r),
                                     from.cols * sizeof(float)));
  }
  return absl::OkStatus();
}

// A device matrix as host memory, kept in `buffer`.
absl::StatusOr<Matrix<const float>> OnHost(Backend& backend,
                                           Matrix<const float> matrix,
                                           std::vector<float>& buffer) {
  buffer.resize(matrix.rows * matrix.cols);
  RETURN_IF_ERROR(Download(backend, matrix, buffer.data()));
  return Matrix<const float>(buffer.data(), matrix.rows, matrix.cols);
}

}  // namespace

// A run on its way. Its parts wait for memory, run, and end. Chunks of
// different chains touch disjoint rows of `state`.
class BatchRunner::Progress {
 public:
  Progress(BatchRun given, Plan made, int parts)
      : run(std::move(given)), plan(std::move(made)), waiting_(parts) {
    const bool carries =
        std::any_of(plan.chains.begin(), plan.chains.end(),
                    [](const Chain& chain) { return chain.size() > 1; });
    if (run.state.empty() && (carries || run.want_state)) {
      run.state.resize(run.batch.num_sequences() *
                       run.version->model->state_size());
    }
  }

  const Chunk& ChunkAt(Place place) const {
    return plan.chains[place.chain][place.chunk];
  }

  // The chunk's part of the state, absent if all is zeros and stays unused.
  absl::Span<float> StateOf(const Chunk& chunk) {
    if (run.state.empty()) return {};
    const int64_t size = run.version->model->state_size();
    return absl::MakeSpan(run.state).subspan(chunk.first_sequence * size,
                                             chunk.num_sequences * size);
  }

  absl::Status Check() {
    RETURN_IF_ERROR(status());
    return run.control.Check();
  }
  absl::Status status() {
    absl::MutexLock lock(&mutex_);
    return status_;
  }
  // Whether a part that waits is still wanted.
  bool HasWork() {
    absl::MutexLock lock(&mutex_);
    return HasWorkLocked();
  }

  // The first place of a part that has its memory; false if there is nothing
  // left for it.
  bool Begin(Place& place) {
    absl::MutexLock lock(&mutex_);
    --waiting_;
    if (!HasWorkLocked()) return false;
    ++active_;
    place = {next_chain_++, 0};
    return true;
  }

  // Where the part goes on that did the chunk at `place` with this result;
  // false if it is finished, `*last` if the run is.
  bool Advance(Place& place, const absl::Status& status, bool* last) {
    absl::MutexLock lock(&mutex_);
    status_.Update(status);
    if (status_.ok() && ++place.chunk < plan.chains[place.chain].size()) {
      return true;
    }
    if (HasWorkLocked()) {
      place = {next_chain_++, 0};
      return true;
    }
    *last = --active_ == 0;
    return false;
  }

  // A part ends before it began; the others do its work. True if there are none
  // and the run ends with this status.
  bool GiveUp(const absl::Status& status) {
    absl::MutexLock lock(&mutex_);
    --waiting_;
    if (!HasWorkLocked() || active_ > 0 || waiting_ > 0) return false;
    status_.Update(status);
    return true;
  }

  BatchRun run;
  const Plan plan;

 private:
  bool HasWorkLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return status_.ok() && next_chain_ < plan.chains.size();
  }

  absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  int waiting_ ABSL_GUARDED_BY(mutex_);  // parts for memory
  int active_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t next_chain_ ABSL_GUARDED_BY(mutex_) = 0;
};

BatchRunner::BatchRunner(DevicePool& devices, const Options& options)
    : devices_(devices), options_(options), lines_(devices.size()) {
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
  // A device's memory is freed on its thread, before the device goes.
  absl::BlockingCounter cleared(devices_.size());
  for (int rank = 0; rank < devices_.size(); ++rank) {
    devices_.device(rank).Enqueue(TaskClass::kServing, [&, rank](Backend&) {
      caches_[rank]->Clear();
      cleared.DecrementCount();
    });
  }
  cleared.Wait();
}

bool BatchRunner::CutsInTime(const Model& model) {
  if (model.bidirectional()) return false;
  const auto pooling = model.config().output().pooling();
  return pooling == v1::Output::POOLING_NONE ||
         pooling == v1::Output::POOLING_LAST;
}

// --- What a run needs ---

absl::StatusOr<BatchRunner::Plan> BatchRunner::MakePlan(
    const BatchRun& run) const {
  const Model& model = *run.version->model;
  CutOptions options;
  options.max_rows = PassRows(*run.version);
  options.in_time = CutsInTime(model);
  options.call_rows = run.call_rows;
  Plan plan;
  plan.chains = CutBatch(run.batch.cu_seqlens, options);

  // Of any pass of whole rows, or of the longest sequence that is not cut.
  plan.memory = InferencePlan(model, {options.max_rows, options.max_rows});
  const Chunk* uncut = nullptr;
  for (const Chain& chain : plan.chains) {
    if (chain[0].num_rows <= options.max_rows) continue;
    const MemoryPlan memory =
        InferencePlan(model, {chain[0].num_rows, chain[0].num_sequences});
    if (memory.total() <= plan.memory.total()) continue;
    plan.memory = memory;
    uncut = &chain[0];
  }
  plan.ranks = RanksFor(*run.version, plan.memory);
  if (!plan.ranks.empty()) return plan;
  const absl::Status status = TooLarge(*run.version, plan.memory);
  if (uncut == nullptr) return status;
  return absl::ResourceExhaustedError(absl::StrCat(
      "sequence ", uncut->first_sequence, " has ", uncut->num_rows,
      " rows, which this model cannot take in parts: ", status.message()));
}

// The most rows, halving max_batch_rows, that some device could hold even if
// each is a sequence of its own; 1 if none could.
int64_t BatchRunner::PassRows(const ModelVersion& version) const {
  for (int64_t rows = options_.max_batch_rows; rows > 1;
       rows = (rows + 1) / 2) {
    const MemoryPlan memory = InferencePlan(*version.model, {rows, rows});
    if (!RanksFor(version, memory).empty()) return rows;
  }
  return 1;
}

std::vector<int> BatchRunner::RanksFor(const ModelVersion& version,
                                       const MemoryPlan& memory) const {
  std::vector<int> ranks;
  if (memory.activations > options_.max_arena_bytes) return ranks;
  for (int rank = 0; rank < devices_.size(); ++rank) {
    const Ledger& ledger = devices_.device(rank).ledger();
    if (ledger.CheckFitsBudget(MemoryOwner(version), memory).ok()) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

// Of what no device holds.
absl::Status BatchRunner::TooLarge(const ModelVersion& version,
                                   const MemoryPlan& memory) const {
  if (memory.activations > options_.max_arena_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(MemoryOwner(version), " needs ", memory.activations,
                     " bytes of activations for a pass, the limit is ",
                     options_.max_arena_bytes));
  }
  int largest = 0;
  for (int rank = 1; rank < devices_.size(); ++rank) {
    if (devices_.device(rank).ledger().budget_bytes() >
        devices_.device(largest).ledger().budget_bytes()) {
      largest = rank;
    }
  }
  return devices_.device(largest).ledger().CheckFitsBudget(MemoryOwner(version),
                                                           memory);
}

// --- A run's way ---

void BatchRunner::Start(BatchRun run) {
  absl::StatusOr<Plan> plan = MakePlan(run);
  if (!plan.ok()) return run.done(plan.status());
  std::vector<int> ranks = devices_.ByLoad(plan->ranks);
  ranks.resize(std::min(ranks.size(), plan->chains.size()));
  auto progress = std::make_shared<Progress>(std::move(run), *std::move(plan),
                                             static_cast<int>(ranks.size()));
  {
    absl::MutexLock lock(&mutex_);
    ++running_;
    ++uses_[progress->run.version.get()].runs;
  }
  for (const int rank : ranks) {
    Part part;
    part.progress = progress;
    part.rank = rank;
    devices_.device(rank).Enqueue(
        TaskClass::kServing,
        [this, part](Backend& backend) { Arrive(part, backend); });
  }
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
  if (!waits) {
    const Entry entry = TryEnter(part, backend);
    if (entry == Entry::kIsGone) return;
    if (entry == Entry::kBegins) return RunNext(std::move(part), backend);
  }
  part.since = absl::Now();
  absl::MutexLock lock(&mutex_);
  lines_[part.rank].push_back(std::move(part));
}

// Waits only where another model is in use: when that ends, AdmitWaiting looks
// again.
BatchRunner::Entry BatchRunner::TryEnter(Part& part, Backend& backend) {
  Progress& progress = *part.progress;
  ExecutorCache& cache = *caches_[part.rank];
  if (absl::Status status = progress.Check(); !status.ok()) {
    GiveUp(part, status);
    return Entry::kIsGone;
  }
  const absl::StatusOr<ExecutorCache::Slot*> slot =
      cache.Acquire(progress.run.version, progress.plan.memory, backend);
  if (slot.ok()) {
    part.slot = *slot;
    if (progress.Begin(part.place)) return Entry::kBegins;
    cache.Release(part.slot);
    return Entry::kIsGone;
  }
  if (absl::IsResourceExhausted(slot.status()) && cache.AnyInUse()) {
    part.reason = std::string(slot.status().message());
    return Entry::kWaits;
  }
  GiveUp(part, slot.status());
  return Entry::kIsGone;
}

// One chunk, then the next behind whatever else waits for the device, so that
// a large batch holds nobody up for longer than a chunk.
void BatchRunner::RunNext(Part part, Backend& backend) {
  Progress& progress = *part.progress;
  absl::Status status = progress.Check();
  if (status.ok()) status = RunChunk(part, backend);
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
    absl::MutexLock lock(&mutex_);
    if (entry == Entry::kWaits) {
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
    const Progress& progress = *part.progress;
    waiting.push_back({MemoryOwner(*progress.run.version), progress.plan.memory,
                       part.reason, part.since});
    if (waiting.size() == 1) continue;
    waiting.back().reason =
        absl::StrCat(waiting.size() - 1, " in line before it");
  }
  return waiting;
}

absl::Status BatchRunner::RunChunk(const Part& part, Backend& backend) {
  Progress& progress = *part.progress;
  const Chunk& chunk = progress.ChunkAt(part.place);
  const BatchRun& run = progress.run;
  const Model& model = *run.version->model;
  const SequenceBatch slice = Slice(run.batch, chunk, model.feature_size());
  const absl::Span<float> state = progress.StateOf(chunk);
  if (chunk.begins_call && !state.empty()) model.BeginCall(state);

  ForwardArgs args;
  args.batch = &slice;
  args.state = state;
  ASSIGN_OR_RETURN(const ForwardResult result,
                   ExecutorCache::ExecutorOf(*part.slot).Forward(args));
  if (!state.empty()) {
    RETURN_IF_ERROR(Download(backend, result.state, state.data()));
  }
  devices_.device(part.rank).AddRows(chunk.num_rows);

  std::vector<float> output, hidden;
  ChunkRows rows;
  rows.chunk = chunk;
  rows.first_output_row =
      model.pools() ? chunk.first_sequence : chunk.first_row;
  if (run.want_output) {
    ASSIGN_OR_RETURN(rows.output, OnHost(backend, result.output, output));
  }
  if (run.want_hidden) {
    ASSIGN_OR_RETURN(rows.hidden, OnHost(backend, result.hidden, hidden));
  }
  return run.consume(rows);
}

void BatchRunner::Finish(Progress& progress) {
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
