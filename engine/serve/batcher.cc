#include "engine/serve/batcher.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/model.h"
#include "engine/serve/executor_cache.h"
#include "engine/serve/retry_hint.h"
#include "kernels/status.h"

namespace recurve {
namespace {

RunLimits RunLimitsOf(const Batcher::Options& options) {
  return {options.max_batch_rows, options.max_arena_bytes};
}

BatchLimits BatchLimitsOf(const Batcher::Options& options) {
  BatchLimits limits;
  limits.max_rows = options.max_batch_rows;
  limits.max_sequences = options.max_batch_size;
  limits.max_chunk_rows =
      std::min(options.max_chunk_rows, options.max_batch_rows);
  limits.timeout = options.batch_timeout;
  limits.pad_to_longest = options.pad_to_longest;
  return limits;
}

int64_t BytesOf(const BatcherRequest& request) {
  const SequenceBatch& batch = request.batch;
  return static_cast<int64_t>(sizeof(int64_t) * batch.cu_seqlens.size() +
                              sizeof(int32_t) * batch.tokens.size() +
                              sizeof(float) * batch.features.size()) +
         request.result_bytes;
}

absl::Status CheckStates(const BatcherRequest& request) {
  if (request.states.empty()) return absl::OkStatus();
  const Model& model = *request.version->model;
  if (!model.CutsInTime()) {
    return absl::FailedPreconditionError(
        absl::StrCat(MemoryOwner(*request.version),
                     " is bidirectional: it has no state to go on from"));
  }
  if (static_cast<int64_t>(request.states.size()) !=
      request.batch.num_sequences()) {
    return absl::InvalidArgumentError(
        absl::StrCat(request.states.size(), " states for ",
                     request.batch.num_sequences(), " sequences"));
  }
  for (const auto& state : request.states) {
    RETURN_IF_ERROR(state->lost());
    if (state->carry_size() == model.carry_size()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "a state of ", state->carry_size(), " numbers, ",
        MemoryOwner(*request.version), " has ", model.carry_size()));
  }
  return absl::OkStatus();
}

// What follows a sequence's end would change its state and what is pooled.
absl::Status CheckPadding(const BatcherRequest& request, int64_t max_rows) {
  const Model& model = *request.version->model;
  if (!request.states.empty() || model.pools() || model.bidirectional()) {
    return absl::FailedPreconditionError(
        "this server pads, for a benchmark: no states, and models with an "
        "output for each step of one direction alone");
  }
  for (int64_t b = 0; b < request.batch.num_sequences(); ++b) {
    const int64_t rows =
        request.batch.cu_seqlens[b + 1] - request.batch.cu_seqlens[b];
    if (rows <= max_rows) continue;
    return absl::ResourceExhaustedError(
        absl::StrCat("this server pads, for a benchmark: sequence ", b, " has ",
                     rows, " rows, the limit is ", max_rows));
  }
  return absl::OkStatus();
}

std::vector<std::unique_ptr<StatePool>> NewPools(DevicePool& devices) {
  std::vector<std::unique_ptr<StatePool>> pools;
  for (int rank = 0; rank < devices.size(); ++rank) {
    pools.push_back(std::make_unique<StatePool>(devices.device(rank), rank));
  }
  return pools;
}

std::vector<StatePool*> PointersTo(
    const std::vector<std::unique_ptr<StatePool>>& pools) {
  std::vector<StatePool*> pointers;
  for (const auto& pool : pools) pointers.push_back(pool.get());
  return pointers;
}

}  // namespace

Batcher::Batcher(BatchRunner& runner, const Options& options)
    : options_(options),
      pools_(NewPools(runner.admission().devices())),
      context_{runner.admission(),
               PointersTo(pools_),
               RunLimitsOf(options),
               BatchLimitsOf(options),
               options.now,
               [this](const PendingRequest& request) { Leave(request); },
               [this](const PendingRequest&) { Answered(); },
               [this](absl::Time time) { PollAt(time); }},
      timer_([this] { RunTimer(); }) {}

Batcher::~Batcher() {
  std::vector<std::shared_ptr<VersionBatcher>> batchers;
  {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](int64_t* unanswered) { return *unanswered == 0; }, &unanswered_));
    for (const auto& [version, entry] : batchers_) {
      batchers.push_back(entry.batcher);
    }
  }
  for (const auto& batcher : batchers) batcher->AwaitIdle();
  {
    absl::MutexLock lock(&timer_mutex_);
    stopping_ = true;
    timer_changed_.Signal();
  }
  timer_.join();
}

void Batcher::Enqueue(BatcherRequest given) {
  if (absl::Status status = Check(given); !status.ok()) {
    return given.done(status);
  }
  auto batcher = BatcherOf(given.version);
  if (!batcher.ok()) return given.done(batcher.status());
  const int64_t bytes = BytesOf(given);
  if (absl::Status status = Enter(bytes); !status.ok()) {
    SetRetryHint(status, (*batcher)->TimeToDrain());
    return Refuse(given, status);
  }
  const auto request =
      std::make_shared<PendingRequest>(std::move(given), options_.now());
  request->bytes = bytes;
  const absl::Status status = (*batcher)->Enqueue(request);
  if (status.ok()) return;
  Leave(*request);
  Answered();
  Refuse(request->request, status);
}

void Batcher::Refuse(const BatcherRequest& request,
                     const absl::Status& status) {
  statistics_.Of(request.version->name)->Refused();
  request.done(status);
}

absl::Status Batcher::Check(const BatcherRequest& request) const {
  RETURN_IF_ERROR(CheckStates(request));
  if (options_.pad_to_longest) {
    RETURN_IF_ERROR(CheckPadding(request, options_.max_batch_rows));
  }
  return request.control.Check(options_.now());
}

absl::StatusOr<std::shared_ptr<VersionBatcher>> Batcher::BatcherOf(
    const ModelHandle& version) {
  absl::MutexLock lock(&mutex_);
  const auto found = batchers_.find(version.get());
  if (found != batchers_.end() &&
      found->second.version.lock().get() == version.get()) {
    return found->second.batcher;
  }
  absl::erase_if(batchers_, [](const auto& entry) {
    return entry.second.version.expired();
  });
  ASSIGN_OR_RETURN(
      auto batcher,
      VersionBatcher::Create(context_, version, statistics_.Of(version->name)));
  batchers_[version.get()] = {version->weak_from_this(), batcher};
  return batcher;
}

absl::Status Batcher::Enter(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  if (enqueued_ >= options_.max_enqueued) {
    return absl::ResourceExhaustedError(absl::StrCat(
        enqueued_, " requests are under way, the limit; try again later"));
  }
  if (bytes > options_.max_enqueued_bytes - enqueued_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "requests of ", enqueued_bytes_, " bytes are under way, ", bytes,
        " more exceed the limit of ", options_.max_enqueued_bytes));
  }
  ++enqueued_;
  ++unanswered_;
  enqueued_bytes_ += bytes;
  return absl::OkStatus();
}

void Batcher::Leave(const PendingRequest& request) {
  absl::MutexLock lock(&mutex_);
  --enqueued_;
  enqueued_bytes_ -= request.bytes;
}

void Batcher::Answered() {
  absl::MutexLock lock(&mutex_);
  --unanswered_;
}

// --- The timer ---

void Batcher::Poll() {
  std::vector<std::shared_ptr<VersionBatcher>> batchers;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [version, entry] : batchers_) {
      batchers.push_back(entry.batcher);
    }
  }
  for (const auto& batcher : batchers) batcher->Poll();
}

void Batcher::PollAt(absl::Time time) {
  absl::MutexLock lock(&timer_mutex_);
  if (time >= next_poll_) return;
  next_poll_ = time;
  timer_changed_.Signal();
}

void Batcher::RunTimer() {
  for (;;) {
    {
      absl::MutexLock lock(&timer_mutex_);
      for (;;) {
        if (stopping_) return;
        const absl::Duration delay = next_poll_ - options_.now();
        if (delay <= absl::ZeroDuration()) break;
        timer_changed_.WaitWithTimeout(&timer_mutex_, delay);
      }
      next_poll_ = absl::InfiniteFuture();
    }
    Poll();
  }
}

}  // namespace recurve
