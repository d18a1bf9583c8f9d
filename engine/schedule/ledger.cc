#include "engine/schedule/ledger.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/schedule/ledger_line.h"
#include "engine/schedule/ledger_state.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// How long a device's thread may take to free what was evicted, between two
// micro-batches of training.
constexpr absl::Duration kReleaseTimeout = absl::Minutes(1);

}  // namespace

// One request on its way from question to answer.
class Ledger::Acquisition {
 public:
  Acquisition(Account& account, const MemoryPlan& plan)
      : state_(account.state()),
        request_{&account, plan, state_.options().now()} {}

  // Without waiting.
  absl::Status TakeNow() {
    RETURN_IF_ERROR(CheckBudget());
    if (TryNow()) return absl::OkStatus();
    state_.EvictFor(request_);
    absl::MutexLock lock(&state_.mutex());
    if (state_.TryGrant(request_)) return absl::OkStatus();
    return state_.Missing(request_) > 0 ? Refusal()
                                        : absl::AbortedError(Text());
  }

  // The same, and waits for what is being freed, if that is enough.
  absl::Status Take() {
    RETURN_IF_ERROR(CheckBudget());
    if (TryNow()) return absl::OkStatus();
    state_.EvictFor(request_);
    absl::MutexLock lock(&state_.mutex());
    if (state_.TryGrant(request_)) return absl::OkStatus();
    if (state_.Missing(request_) > 0) return Refusal();
    state_.Promise(&request_);
    if (state_.mutex().AwaitWithTimeout(absl::Condition(&request_.granted),
                                        kReleaseTimeout)) {
      return absl::OkStatus();
    }
    const absl::Status refusal = Refusal();
    state_.TakeBack(&request_);
    return refusal;
  }

 private:
  absl::Status CheckBudget() const {
    return state_.CheckBudget(request_.account->owner(), request_.plan,
                              request_.account->task_class());
  }
  bool TryNow() {
    absl::MutexLock lock(&state_.mutex());
    return state_.TryGrant(request_);
  }
  absl::Status Refusal() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex()) {
    return absl::ResourceExhaustedError(Text());
  }
  std::string Text() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(state_.mutex()) {
    return absl::StrCat(request_.account->owner(), " ",
                        state_.Reason(request_));
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
  return Acquisition(*account_, plan).Take();
}

absl::Status Ledger::Reservation::TryResize(const MemoryPlan& plan) {
  return Acquisition(*account_, plan).TakeNow();
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
  RETURN_IF_ERROR(Acquisition(*account, plan).TakeNow());
  return Reservation(std::move(account));
}

absl::StatusOr<Ledger::Reservation> Ledger::Reserve(const std::string& owner,
                                                    const MemoryPlan& plan,
                                                    TaskClass task_class) {
  auto account = std::make_shared<Account>(state_, owner, task_class);
  RETURN_IF_ERROR(Acquisition(*account, plan).Take());
  return Reservation(std::move(account));
}

absl::StatusOr<std::vector<Ledger::Reservation>> Ledger::ReserveAll(
    const std::string& owner, absl::Span<const Need> needs, const Wait& wait) {
  std::vector<std::shared_ptr<Account>> accounts;
  std::vector<MemoryPlan> plans;
  for (const Need& need : needs) {
    accounts.push_back(std::make_shared<Account>(need.ledger->state_, owner,
                                                 TaskClass::kTraining));
    plans.push_back(need.plan);
  }
  RETURN_IF_ERROR(Line(accounts, plans).Await(wait));
  std::vector<Reservation> reservations;
  for (auto& account : accounts) {
    reservations.push_back(Reservation(std::move(account)));
  }
  return reservations;
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
