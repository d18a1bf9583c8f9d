#include "engine/serve/version_batcher.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/executor.h"
#include "engine/model/model.h"
#include "engine/schedule/device.h"
#include "engine/serve/executor_cache.h"
#include "engine/serve/packed_pass.h"
#include "engine/serve/retry_hint.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// Passes of one lane while others wait for its device's memory.
constexpr int kPassesPerTurn = 16;
// So many wait for one device while another is idle: then states move.
constexpr int64_t kManyPasses = 2;
// After it, a device is asked again whose memory others had.
constexpr absl::Duration kRefusalHolds = absl::Seconds(1);
constexpr absl::Duration kPollPeriod = absl::Milliseconds(20);
// Of the time that a request takes behind others: not in it is who comes later
// and goes first, and how the speed changes. Work on requests that then miss
// their deadline is lost: without slack a server that was asked three times
// what it can do answered half as many in time as it could.
constexpr double kSlack = 1.5;
constexpr absl::Duration kLeastRetry = absl::Milliseconds(20);
constexpr absl::Duration kMostRetry = absl::Seconds(10);
// Of the newest pass in what is known of the speed.
constexpr double kNewest = 0.2;

DeviceSet SetOf(const std::vector<int>& ranks) {
  DeviceSet set = 0;
  for (const int rank : ranks) set |= DeviceSet{1} << rank;
  return set;
}

bool Has(DeviceSet set, int rank) { return (set >> rank & 1) != 0; }

BatchLimits WithRows(BatchLimits limits, int64_t max_rows) {
  limits.max_rows = max_rows;
  return limits;
}

}  // namespace

// --- A lane: on its device's thread ---

class VersionBatcher::Lane final : public DeviceWork {
 public:
  Lane(VersionBatcher& batcher, int rank)
      : batcher_(batcher),
        rank_(rank),
        pass_(batcher.context_.batch_limits.pad_to_longest,
              *batcher.context_.pools[rank]) {}

  ModelHandle version() const override {
    absl::MutexLock lock(&batcher_.mutex_);
    return batcher_.version_;
  }
  MemoryPlan memory() const override {
    absl::MutexLock lock(&batcher_.mutex_);
    return memory_;
  }

  absl::Status Check() override { return absl::OkStatus(); }
  bool IsWanted() override {
    absl::MutexLock lock(&batcher_.mutex_);
    return batcher_.queue_.HasWorkFor(rank_);
  }

  bool Begin() override {
    absl::MutexLock lock(&batcher_.mutex_);
    passes_ = 0;
    last_end_.reset();
    const bool has_work = batcher_.queue_.HasWorkFor(rank_);
    phase_ = has_work ? Phase::kRuns : Phase::kIdle;
    return has_work;
  }

  bool Run(Executor& executor, Backend& backend) override;

  void End() override {
    if (std::exchange(comes_back_, false)) return batcher_.Submit({this});
    absl::MutexLock lock(&batcher_.mutex_);
    batcher_.LetGo(1);
  }

  void Refuse(const absl::Status& status, Backend& backend) override;

 private:
  friend class VersionBatcher;

  struct Next {
    bool goes_on = false;
    std::vector<Pending> ended = {};
  };
  VersionQueue::Taken Take(std::vector<Pending>& expired);
  Next Finish(std::vector<TakenPart> parts,
              const std::vector<absl::Status>& statuses, const PassTimes& times,
              int64_t longer);
  Next Idle(const VersionQueue::Taken& taken);
  void Measure(int64_t rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(batcher_.mutex_);
  // For a sequence that its memory is not for.
  void ComeBackFor(int64_t longest)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(batcher_.mutex_);
  bool MustMakeWay() const {
    return passes_ >= kPassesPerTurn &&
           batcher_.context_.admission.HasLine(rank_);
  }
  void Prepare(int64_t longest) ABSL_EXCLUSIVE_LOCKS_REQUIRED(batcher_.mutex_);
  VersionBatcher& batcher_;
  const int rank_;

  // Guarded by the batcher's mutex.
  Phase phase_ = Phase::kIdle;
  MemoryPlan memory_;
  int64_t longest_ = 0;  // rows of a sequence that memory_ is for

  // The device's thread's.
  PackedPass pass_;
  int passes_ = 0;             // since it has its memory
  int64_t seen_arrivals_ = 0;  // by its last Take
  bool comes_back_ = false;
  std::optional<absl::Duration> last_end_;  // of a pass
  absl::Duration begin_;
};

bool VersionBatcher::Lane::Run(Executor& executor, Backend& backend) {
  begin_ = last_end_.value_or(MonotonicTime());
  std::vector<Pending> expired;
  VersionQueue::Taken taken = Take(expired);
  batcher_.Answer(expired);
  Next next;
  if (taken.parts.empty()) {
    next = Idle(taken);
  } else {
    PassTimes times;
    const auto& statuses =
        pass_.Run(*batcher_.model_, taken.parts, executor, backend, times);
    ++passes_;
    next = Finish(std::move(taken.parts), statuses, times, taken.longer);
  }
  batcher_.Answer(next.ended);
  return next.goes_on;
}

VersionQueue::Taken VersionBatcher::Lane::Take(std::vector<Pending>& expired) {
  const absl::Time now = batcher_.context_.now();
  absl::MutexLock lock(&batcher_.mutex_);
  expired = batcher_.queue_.Expire(now);
  batcher_.LetGo(expired.size());
  VersionQueue::Taken taken = batcher_.queue_.Take(rank_, longest_, now);
  batcher_.pass_waits_until_ = taken.wait_until;
  seen_arrivals_ = batcher_.arrivals_;
  return taken;
}

// Nothing was there for a pass, or not enough yet.
VersionBatcher::Lane::Next VersionBatcher::Lane::Idle(
    const VersionQueue::Taken& taken) {
  absl::MutexLock lock(&batcher_.mutex_);
  if (batcher_.arrivals_ != seen_arrivals_) return {/*goes_on=*/true, {}};
  if (taken.wait_until < absl::InfiniteFuture()) {
    batcher_.context_.poll_at(taken.wait_until);
  } else if (taken.longer > 0) {
    ComeBackFor(taken.longer);
    return {};
  } else if (batcher_.queue_.HasWorkFor(rank_)) {
    return {.goes_on = true};  // it has come meanwhile
  }
  phase_ = Phase::kIdle;
  return {};
}

VersionBatcher::Lane::Next VersionBatcher::Lane::Finish(
    std::vector<TakenPart> parts, const std::vector<absl::Status>& statuses,
    const PassTimes& times, int64_t longer) {
  int64_t rows = 0;
  for (const TakenPart& part : parts) rows += part.rows;
  batcher_.statistics_->Passed(rows, times);
  batcher_.context_.admission.devices().device(rank_).AddRows(rows);
  Next next;
  absl::MutexLock lock(&batcher_.mutex_);
  Measure(rows);
  next.ended = batcher_.queue_.Return(std::move(parts), statuses, times);
  batcher_.LetGo(next.ended.size());
  if (batcher_.queue_.empty()) batcher_.refused_ = 0;
  if (!batcher_.queue_.HasWorkFor(rank_)) {
    phase_ = Phase::kIdle;
  } else if (longer > longest_ || MustMakeWay()) {
    ComeBackFor(longer);
  } else {
    next.goes_on = true;
  }
  return next;
}

void VersionBatcher::Lane::Measure(int64_t rows) {
  last_end_ = MonotonicTime();
  if (2 * rows < batcher_.queue_.limits().max_rows) return;
  const double seconds = absl::ToDoubleSeconds(*last_end_ - begin_);
  if (seconds <= 0) return;
  double& known = batcher_.rows_per_second_;
  const double now = static_cast<double>(rows) / seconds;
  known = known > 0 ? (1 - kNewest) * known + kNewest * now : now;
}

void VersionBatcher::Lane::ComeBackFor(int64_t longest) {
  phase_ = Phase::kSubmitted;
  comes_back_ = true;
  Prepare(longest);
}

void VersionBatcher::Lane::Prepare(int64_t longest) {
  longest_ = std::max(longest, batcher_.queue_.LongestFor(rank_));
  memory_ = batcher_.memory_;
  if (longest_ == 0) return;
  memory_ = PassMemory(batcher_.context_.admission.devices(), *batcher_.model_,
                       batcher_.precision_, {0, longest_},
                       batcher_.queue_.limits().max_rows);
}

// Another device may have the memory that this one has not, and gets the states
// that are here; the weights, if they are what is missing, nobody has.
void VersionBatcher::Lane::Refuse(const absl::Status& status,
                                  Backend& backend) {
  if (!status.ok()) batcher_.context_.pools[rank_]->SpillAll(backend);
  std::vector<Pending> ended;
  std::vector<Lane*> woken;
  {
    absl::MutexLock lock(&batcher_.mutex_);
    phase_ = Phase::kIdle;
    if (absl::IsResourceExhausted(status)) {
      batcher_.refused_ |= DeviceSet{1} << rank_;
      batcher_.refused_until_ = batcher_.context_.now() + kRefusalHolds;
      ended = batcher_.queue_.Refuse(batcher_.refused_, status);
    } else if (!status.ok()) {
      ended = batcher_.queue_.Refuse(~DeviceSet{0}, status);
    }
    batcher_.LetGo(ended.size());
    if (batcher_.queue_.empty()) batcher_.refused_ = 0;
    woken = batcher_.WakeLanes(batcher_.DevicesWithWork());
  }
  batcher_.Submit(woken);
  batcher_.Answer(ended);
  absl::MutexLock lock(&batcher_.mutex_);
  batcher_.LetGo(1);
}

// --- All lanes ---

absl::StatusOr<std::shared_ptr<VersionBatcher>> VersionBatcher::Create(
    const BatchingContext& context, const ModelHandle& version,
    std::shared_ptr<VersionStatistics> statistics) {
  ASSIGN_OR_RETURN(const RunPlan plan,
                   PlanRun(context.admission.devices(), context.run_limits,
                           *version, /*cu_seqlens=*/{0, 1}, /*call_rows=*/0,
                           /*held=*/nullptr));
  return std::shared_ptr<VersionBatcher>(
      new VersionBatcher(context, version, std::move(statistics), plan));
}

VersionBatcher::VersionBatcher(const BatchingContext& context,
                               const ModelHandle& version,
                               std::shared_ptr<VersionStatistics> statistics,
                               const RunPlan& plan)
    : context_(context),
      statistics_(std::move(statistics)),
      model_(version->model),
      precision_(version->precision()),
      memory_(plan.memory),
      devices_(SetOf(plan.ranks)),
      queue_(WithRows(context.batch_limits, plan.max_rows),
             model_->CutsInTime(), model_->carry_size()) {
  for (int rank = 0; rank < context.admission.devices().size(); ++rank) {
    lanes_.push_back(std::make_shared<Lane>(*this, rank));
  }
}

VersionBatcher::~VersionBatcher() = default;

absl::Status VersionBatcher::Enqueue(const Pending& request) {
  request->devices = devices_;
  RETURN_IF_ERROR(CheckLongest(*request));
  RETURN_IF_ERROR(CheckDeadline(*request));
  if (request->request.accepted) request->request.accepted();
  std::vector<Lane*> woken;
  {
    absl::MutexLock lock(&mutex_);
    // Where all have refused, it is asked again rather than made to wait.
    if ((request->devices & ~refused_) == 0) refused_ = 0;
    Hold(request->request.version);
    queue_.Add(request);
    ++arrivals_;
    statistics_->Entered(request->arrival);
    woken = WakeLanesFor(*request);
  }
  Submit(woken);
  FreeFromElsewhere(*request);
  context_.poll_at(request->arrival + kPollPeriod);
  return absl::OkStatus();
}

// Of a sequence that is not cut: the devices that could hold it.
absl::Status VersionBatcher::CheckLongest(PendingRequest& request) const {
  if (model_->CutsInTime()) return absl::OkStatus();
  int64_t max_rows = 0;
  {
    absl::MutexLock lock(&mutex_);
    max_rows = queue_.limits().max_rows;
  }
  if (request.longest <= max_rows) return absl::OkStatus();
  RunLimits limits = context_.run_limits;
  limits.max_batch_rows = max_rows;
  ASSIGN_OR_RETURN(
      const RunPlan plan,
      PlanRun(context_.admission.devices(), limits, *request.request.version,
              request.request.batch.cu_seqlens,
              /*call_rows=*/0, /*held=*/nullptr));
  request.devices = SetOf(plan.ranks);
  return absl::OkStatus();
}

// At the speed so far, of all devices together.
absl::Status VersionBatcher::CheckDeadline(
    const PendingRequest& request) const {
  const absl::Time deadline = request.request.control.deadline;
  if (deadline == absl::InfiniteFuture()) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  if (rows_per_second_ <= 0) return absl::OkStatus();
  const int64_t before = queue_.RowsBefore(request);
  // And the pass that runs.
  const int64_t rows = before + request.rows() + queue_.limits().max_rows;
  const auto devices =
      static_cast<double>(__builtin_popcountll(request.devices));
  const absl::Duration needed =
      kSlack *
      absl::Seconds(static_cast<double>(rows) / (rows_per_second_ * devices));
  const absl::Duration left = deadline - request.arrival;
  if (before == 0 || needed <= left) return absl::OkStatus();
  absl::Status refused = absl::ResourceExhaustedError(
      absl::StrCat(before, " rows wait before this request of ", request.rows(),
                   ", which takes about ", absl::FormatDuration(needed),
                   "; its deadline is in ", absl::FormatDuration(left)));
  SetRetryHint(refused, std::clamp(needed - left, kLeastRetry, kMostRetry));
  return refused;
}

absl::Duration VersionBatcher::TimeToDrain() const {
  absl::MutexLock lock(&mutex_);
  if (rows_per_second_ <= 0) return kLeastRetry;
  const auto rows = static_cast<double>(queue_.waiting_rows());
  return std::clamp(absl::Seconds(rows / rows_per_second_), kLeastRetry,
                    kMostRetry);
}

DeviceSet VersionBatcher::DevicesWithWork() const {
  DeviceSet devices = 0;
  for (const auto& lane : lanes_) {
    if (queue_.HasWorkFor(lane->rank_)) devices |= DeviceSet{1} << lane->rank_;
  }
  return devices;
}

// Those that its states are bound to; for what is bound to none any.
std::vector<VersionBatcher::Lane*> VersionBatcher::WakeLanesFor(
    const PendingRequest& request) {
  std::vector<Lane*> woken;
  bool all_bound = !request.request.states.empty();
  for (const auto& state : request.request.states) {
    const auto bound = state->device();
    const bool is_bound = bound.has_value() && Has(request.devices, *bound);
    if (is_bound) Wake(*bound, woken);
    all_bound = all_bound && is_bound;
  }
  if (!all_bound && woken.empty()) return WakeLanes(request.devices);
  return woken;
}

// As many of them as have a pass to run, those with the least to do first; a
// pass that waits for more has a timer instead.
std::vector<VersionBatcher::Lane*> VersionBatcher::WakeLanes(
    DeviceSet devices) {
  std::vector<Lane*> woken;
  const int64_t rows = queue_.waiting_rows();
  const int64_t max_rows = queue_.limits().max_rows;
  if (rows == 0) return woken;
  const bool waits_for_more = pass_waits_until_ < absl::InfiniteFuture() &&
                              pass_waits_until_ > context_.now();
  if (waits_for_more && rows < max_rows) return woken;
  int64_t wanted = (rows + max_rows - 1) / max_rows;
  std::vector<int> idle;
  for (const auto& lane : lanes_) {
    wanted -= lane->phase_ == Phase::kSubmitted;
    if (lane->phase_ != Phase::kIdle) continue;
    if (Has(devices & ~refused_, lane->rank_)) idle.push_back(lane->rank_);
  }
  if (wanted <= 0 || idle.empty()) return woken;
  if (idle.size() > 1) {
    idle = context_.admission.devices().ByLoad(std::move(idle));
  }
  for (size_t i = 0; i < idle.size() && wanted > 0; ++i, --wanted) {
    Wake(idle[i], woken);
  }
  return woken;
}

void VersionBatcher::Wake(int rank, std::vector<Lane*>& woken) {
  Lane& lane = *lanes_[rank];
  if (lane.phase_ != Phase::kIdle) return;
  lane.phase_ = Phase::kSubmitted;
  lane.Prepare(/*longest=*/0);
  Hold(version_);
  woken.push_back(&lane);
}

void VersionBatcher::Submit(const std::vector<Lane*>& lanes) {
  for (Lane* const lane : lanes) {
    context_.admission.Submit(lane->rank_, lanes_[lane->rank_]);
  }
}

// --- Ends ---

void VersionBatcher::Hold(const ModelHandle& version) {
  if (holds_++ > 0) return;
  version_ = version;
  context_.admission.AddUse(*version_);
}

void VersionBatcher::LetGo(size_t holds) {
  if (holds == 0) return;
  holds_ -= holds;
  if (holds_ > 0) return;
  context_.admission.RemoveUse(*version_);
  version_ = nullptr;
}

void VersionBatcher::Answer(const std::vector<Pending>& ended) {
  if (ended.empty()) return;
  const absl::Time now = context_.now();
  for (const Pending& pending : ended) {
    const BatcherRequest& request = pending->request;
    if (pending->status.ok() && !request.replay) {
      for (const auto& state : request.states) state->Commit();
    }
    statistics_->Left({pending->status, now - pending->arrival,
                       pending->begun.value_or(now) - pending->arrival,
                       pending->passes, pending->sequences()});
    context_.leaving(*pending);
    request.done(pending->status);
    context_.answered(*pending);
  }
}

// --- From time to time ---

void VersionBatcher::Poll() {
  const absl::Time now = context_.now();
  std::vector<Pending> expired;
  std::vector<Lane*> woken;
  {
    absl::MutexLock lock(&mutex_);
    if (queue_.empty()) return;
    expired = queue_.Expire(now);
    LetGo(expired.size());
    if (now >= refused_until_) refused_ = 0;
    woken = WakeLanes(DevicesWithWork());
    Rebalance();
    if (!queue_.empty()) {
      context_.poll_at(std::min(now + kPollPeriod, queue_.NextDeadline()));
    }
    if (pass_waits_until_ > now) context_.poll_at(pass_waits_until_);
  }
  Submit(woken);
  Answer(expired);
}

// Half of what is bound to a device with more than it can do in a while may go
// where nothing is to be done.
void VersionBatcher::Rebalance() {
  const auto is_idle = [&](const auto& lane) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    return lane->phase_ == Phase::kIdle &&
           Has(devices_ & ~refused_, lane->rank_);
  };
  if (std::none_of(lanes_.begin(), lanes_.end(), is_idle)) return;
  for (const auto& lane : lanes_) {
    if (lane->phase_ == Phase::kIdle) continue;
    VersionQueue::Bound bound = queue_.BoundTo(lane->rank_);
    if (bound.rows < kManyPasses * queue_.limits().max_rows) continue;
    bound.states.resize(bound.states.size() / 2);
    SpillLater(lane->rank_, std::move(bound.states));
  }
}

// The states may be another version's, on a device that has no room for this
// one.
void VersionBatcher::FreeFromElsewhere(const PendingRequest& request) {
  for (const auto& state : request.request.states) {
    const auto bound = state->device();
    if (!bound.has_value() || Has(request.devices, *bound)) continue;
    SpillLater(*bound, {state});
  }
}

// On its device's thread. Who may go on with them finds them at the next Poll.
void VersionBatcher::SpillLater(int rank, States states) {
  StatePool* const pool = context_.pools[rank];
  context_.admission.devices().device(rank).Enqueue(
      TaskClass::kServing,
      [pool, states = std::move(states)](Backend& backend) {
        pool->Spill(states, backend);
      });
}

void VersionBatcher::AwaitIdle() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](size_t* holds) { return *holds == 0; }, &holds_));
}

}  // namespace recurve
