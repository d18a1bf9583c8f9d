#include "engine/serve/batch_runner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
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

// A run on its way. Chunks of different chains touch disjoint rows of `state`.
class BatchRunner::Progress {
 public:
  Progress(BatchRun given, std::vector<Chain> cut)
      : run(std::move(given)), chains(std::move(cut)) {
    const bool carries =
        std::any_of(chains.begin(), chains.end(),
                    [](const Chain& chain) { return chain.size() > 1; });
    if (run.state.empty() && (carries || run.want_state)) {
      run.state.resize(run.batch.num_sequences() *
                       run.version->model->state_size());
    }
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

  // The first of `count` places, one for each device that takes part.
  void Begin(int count) {
    absl::MutexLock lock(&mutex_);
    active_ = count;
    next_chain_ = count;
  }

  // Where the device goes on that did the chunk at `place` with this result;
  // false if it is finished, `*last` if all are.
  bool Advance(Place& place, const absl::Status& status, bool* last) {
    absl::MutexLock lock(&mutex_);
    status_.Update(status);
    if (status_.ok() && ++place.chunk < chains[place.chain].size()) return true;
    if (status_.ok() && next_chain_ < chains.size()) {
      place = {next_chain_++, 0};
      return true;
    }
    *last = --active_ == 0;
    return false;
  }

  BatchRun run;
  const std::vector<Chain> chains;

 private:
  absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  int active_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t next_chain_ ABSL_GUARDED_BY(mutex_) = 0;
};

BatchRunner::BatchRunner(DevicePool& devices, const Options& options)
    : devices_(devices), options_(options) {
  for (int rank = 0; rank < devices_.size(); ++rank) {
    caches_.push_back(
        std::make_unique<ExecutorCache>(options_.max_models_per_device));
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

absl::StatusOr<std::vector<Chain>> BatchRunner::Cut(const BatchRun& run) const {
  const Model& model = *run.version->model;
  CutOptions options;
  options.max_rows = options_.max_batch_rows;
  options.in_time = CutsInTime(model);
  options.call_rows = run.call_rows;
  std::vector<Chain> chains = CutBatch(run.batch.cu_seqlens, options);
  for (const Chain& chain : chains) {
    const Chunk& first = chain[0];  // none of a chain is larger
    const int64_t bytes = Executor::ArenaBytes(
        model, Mode::kInference, first.num_rows, first.num_sequences);
    if (bytes <= options_.max_arena_bytes) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        "sequence ", first.first_sequence, " has ", first.num_rows,
        " rows, which this model cannot take in parts: they need ", bytes,
        " bytes of activations, the limit is ", options_.max_arena_bytes));
  }
  return chains;
}

int BatchRunner::PickDevice(int turn, int wanted) {
  if (wanted == devices_.size()) return turn;
  const DeviceWorker* least = &devices_.LeastLoaded();
  for (int rank = 0; rank < devices_.size(); ++rank) {
    if (&devices_.device(rank) == least) return rank;
  }
  return 0;
}

void BatchRunner::Start(BatchRun run) {
  auto chains = Cut(run);
  if (!chains.ok()) return run.done(chains.status());
  const int places = static_cast<int>(
      std::min<size_t>(static_cast<size_t>(devices_.size()), chains->size()));
  auto progress =
      std::make_shared<Progress>(std::move(run), *std::move(chains));
  progress->Begin(places);
  {
    absl::MutexLock lock(&mutex_);
    ++running_;
    ++uses_[progress->run.version.get()].runs;
  }
  for (int i = 0; i < places; ++i) {
    Enqueue(progress, PickDevice(i, places), {static_cast<size_t>(i), 0});
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

// One chunk, then the next behind whatever else waits for the device, so that
// a large batch holds nobody up for longer than a chunk.
void BatchRunner::Enqueue(std::shared_ptr<Progress> progress, int rank,
                          Place place) {
  devices_.device(rank).Enqueue(
      TaskClass::kServing,
      [this, progress = std::move(progress), rank, place](Backend& backend) {
        absl::Status status = progress->Check();
        if (status.ok()) {
          status =
              RunChunk(*progress, rank,
                       progress->chains[place.chain][place.chunk], backend);
        }
        Place next = place;
        bool last = false;
        if (progress->Advance(next, status, &last)) {
          Enqueue(progress, rank, next);
        } else if (last) {
          Finish(*progress);
        }
      });
}

// Models that are only kept ready take no memory from one that is wanted.
absl::StatusOr<ForwardResult> BatchRunner::Forward(const ModelHandle& version,
                                                   int rank,
                                                   const ForwardArgs& args,
                                                   Backend& backend) {
  const auto try_once = [&]() -> absl::StatusOr<ForwardResult> {
    ASSIGN_OR_RETURN(Executor* const executor,
                     caches_[rank]->Get(version, backend));
    return executor->Forward(args);
  };
  absl::StatusOr<ForwardResult> result = try_once();
  if (!absl::IsResourceExhausted(result.status())) return result;
  caches_[rank]->DropOthers(version);
  return try_once();
}

absl::Status BatchRunner::RunChunk(Progress& progress, int rank,
                                   const Chunk& chunk, Backend& backend) {
  const BatchRun& run = progress.run;
  const Model& model = *run.version->model;
  const SequenceBatch slice = Slice(run.batch, chunk, model.feature_size());
  const absl::Span<float> state = progress.StateOf(chunk);
  if (chunk.begins_call && !state.empty()) model.BeginCall(state);

  ForwardArgs args;
  args.batch = &slice;
  args.state = state;
  ASSIGN_OR_RETURN(const ForwardResult result,
                   Forward(run.version, rank, args, backend));
  if (!state.empty()) {
    RETURN_IF_ERROR(Download(backend, result.state, state.data()));
  }
  devices_.device(rank).AddRows(chunk.num_rows);

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
