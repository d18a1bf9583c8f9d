#include "engine/schedule/ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/schedule/ledger_state.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// How long a device's thread may take to free what was evicted, between two
// micro-batches of training.
constexpr absl::Duration kReleaseTimeout = absl::Minutes(1);
// How often a wait in line looks at what wakes nobody.
constexpr absl::Duration kLook = absl::Milliseconds(50);

}  // namespace

// One request on its way from question to answer.
class Ledger::Acquisition {
 public:
  using Turn = State::Turn;

  Acquisition(Account& account, const MemoryPlan& plan, Turn turn)
      : state_(account.state()),
        request_{&account, plan, turn, state_.options().now()} {}

  absl::Status Run(const Wait& wait = {}) {
    RETURN_IF_ERROR(state_.CheckBudget(request_.account->owner(), request_.plan,
                                       request_.account->task_class()));
    if (TryNow()) return absl::OkStatus();
    if (request_.turn == Turn::kInLine) return WaitInLine(wait);
    Evict();
    if (request_.turn == Turn::kUrgent) return WaitForRelease();
    return TryNow() ? absl::OkStatus() : Refusal();
  }

 private:
  bool TryNow() {
    absl::MutexLock lock(&state_.mutex());
    return state_.TryGrant(request_);
  }

  // Asks evictors for what is missing, if together they can give it.
  void Evict() {
    absl::ReaderMutexLock lock(&state_.evictors_mutex);
    int64_t evictable = 0;
    for (Evictor* evictor : state_.evictors) {
      evictable += evictor->EvictableBytes();
    }
    if (evictable < Missing()) return;
    for (Evictor* evictor : state_.evictors) {
      const int64_t missing = Missing();
      if (missing <= 0) return;
      evictor->Evict(missing);
    }
  }

  int64_t Missing() const {
    absl::MutexLock lock(&state_.mutex());
    return state_.Missing(request_);
  }

  // For what is being freed, if that is enough.
  absl::Status WaitForRelease() {
    absl::MutexLock lock(&state_.mutex());
    if (state_.TryGrant(request_)) return absl::OkStatus();
    if (state_.Missing(request_) > 0) return RefusalLocked();
    state_.Enqueue(&request_);
    if (state_.mutex().AwaitWithTimeout(absl::Condition(&request_.granted),
                                        kReleaseTimeout)) {
      return absl::OkStatus();
    }
    const absl::Status refusal = RefusalLocked();
    state_.Remove(&request_);
    return refusal;
  }

  absl::Status WaitInLine(const Wait& wait) {
    if (!Join()) return absl::OkStatus();
    if (wait.on_wait) wait.on_wait(Reason());
    for (;;) {
      const absl::Status status = Look(wait);
      absl::MutexLock lock(&state_.mutex());
      if (request_.granted) return absl::OkStatus();
      if (!status.ok()) {
        state_.Remove(&request_);
        return status;
      }
      state_.mutex().AwaitWithTimeout(absl::Condition(&request_.granted),
                                      kLook);
    }
  }

  // False if it was granted meanwhile.
  bool Join() {
    absl::MutexLock lock(&state_.mutex());
    if (state_.TryGrant(request_)) return false;
    state_.Enqueue(&request_);
    return true;
  }

  // Why not to wait any longer; evicts if it is this request's turn.
  absl::Status Look(const Wait& wait) {
    if (wait.cancelled != nullptr && wait.cancelled->load()) {
      return absl::CancelledError(absl::StrCat(
          request_.account->owner(), " was cancelled; it ", Reason()));
    }
    if (state_.options().now() >= wait.deadline) {
      return absl::DeadlineExceededError(absl::StrCat(
          request_.account->owner(), " waited for memory: ", Reason()));
    }
    if (IsFirst()) Evict();
    return absl::OkStatus();
  }

  bool IsFirst() const {
    absl::MutexLock lock(&state_.mutex());
    return state_.IsFirst(&request_);
  }
  std::string Reason() const {
    absl::MutexLock lock(&state_.mutex());
    return state_.Reason(request_);
  }
  absl::Status Refusal() const {
    absl::MutexLock lock(&state_.mutex());
    return RefusalLocked();
  }
  absl::Status RefusalLocked() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex()) {
    const std::string text =
        absl::StrCat(request_.account->owner(), " ", state_.Reason(request_));
    return request_.turn == Turn::kNow && state_.Missing(request_) <= 0
               ? absl::AbortedError(text)
               : absl::ResourceExhaustedError(text);
  }

  State& state_;
  State::Request request_;
};

// --- Reservations ---

Ledger::Reservation::Reservation(Reservation&& other) noexcept
    : account_(std::move(other.account_)) {}

Ledger::Reservation& Ledger::Reservation::operator=(
    Reservation&& other) noexcept {
  if (this != &other) {
    Release();
    account_ = std::move(other.account_);
  }
  return *this;
}

MemoryPlan Ledger::Reservation::plan() const {
  return account_ == nullptr ? MemoryPlan()
                             : account_->state().PlanOf(*account_);
}

int64_t Ledger::Reservation::used_bytes() const {
  return account_ == nullptr ? 0 : account_->state().UsedBy(*account_);
}

absl::Status Ledger::Reservation::Resize(const MemoryPlan& plan) {
  return Acquisition(*account_, plan, State::Turn::kUrgent).Run();
}

absl::Status Ledger::Reservation::TryResize(const MemoryPlan& plan) {
  return Acquisition(*account_, plan, State::Turn::kNow).Run();
}

Ledger::Reservation Ledger::Reservation::Split(const MemoryPlan& part) {
  State& state = account_->state();
  auto account = std::make_shared<Account>(
      state.shared_from_this(), account_->owner(), account_->task_class());
  state.Move(part, *account_, *account);
  return Reservation(std::move(account));
}

void Ledger::Reservation::Release() {
  if (account_ == nullptr) return;
  account_->state().EndReservation(*account_);
  account_.reset();
}

// --- The ledger ---

Ledger::Ledger(Options options)
    : state_(std::make_shared<State>(std::move(options))) {}
Ledger::~Ledger() = default;

absl::StatusOr<Ledger::Reservation> Ledger::TryReserve(const std::string& owner,
                                                       const MemoryPlan& plan) {
  auto account = std::make_shared<Account>(state_, owner, TaskClass::kServing);
  RETURN_IF_ERROR(Acquisition(*account, plan, State::Turn::kNow).Run());
  return Reservation(std::move(account));
}

absl::StatusOr<Ledger::Reservation> Ledger::Reserve(const std::string& owner,
                                                    const MemoryPlan& plan,
                                                    TaskClass task_class) {
  auto account = std::make_shared<Account>(state_, owner, task_class);
  RETURN_IF_ERROR(Acquisition(*account, plan, State::Turn::kUrgent).Run());
  return Reservation(std::move(account));
}

absl::StatusOr<Ledger::Reservation> Ledger::ReserveOrWait(
    const std::string& owner, const MemoryPlan& plan, const Wait& wait) {
  auto account = std::make_shared<Account>(state_, owner, TaskClass::kTraining);
  RETURN_IF_ERROR(Acquisition(*account, plan, State::Turn::kInLine).Run(wait));
  return Reservation(std::move(account));
}

void Ledger::AddEvictor(Evictor* evictor) {
  absl::MutexLock lock(&state_->evictors_mutex);
  state_->evictors.push_back(evictor);
}

void Ledger::RemoveEvictor(Evictor* evictor) {
  absl::MutexLock lock(&state_->evictors_mutex);
  auto& evictors = state_->evictors;
  evictors.erase(std::remove(evictors.begin(), evictors.end(), evictor),
                 evictors.end());
}

const std::string& Ledger::name() const { return state_->options().name; }
int64_t Ledger::budget_bytes() const { return state_->options().budget_bytes; }
int64_t Ledger::serving_floor_bytes() const {
  return state_->options().serving_floor_bytes;
}

absl::Status Ledger::CheckFitsBudget(const std::string& owner,
                                     const MemoryPlan& plan,
                                     TaskClass task_class) const {
  return state_->CheckBudget(owner, plan, task_class);
}

LedgerSnapshot Ledger::Snapshot() const { return state_->Snapshot(); }

}  // namespace recurve
