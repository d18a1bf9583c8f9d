#include "engine/schedule/ledger_line.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// How often one who waits looks at what wakes nobody.
constexpr absl::Duration kLook = absl::Milliseconds(50);
// The reason once nothing is in the way any more.
constexpr char kNone[] = "was about to begin";

}  // namespace

// All ledgers of a request at one instant, always in the same order. Nobody
// else holds the locks of two.
class Ledger::Line::LockAll {
 public:
  explicit LockAll(const std::deque<Request>& requests)
      ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (const Request& request : requests) {
      mutexes_.push_back(&StateOf(request).mutex());
    }
    std::sort(mutexes_.begin(), mutexes_.end(), std::less<>());
    for (absl::Mutex* mutex : mutexes_) mutex->Lock();
  }
  ~LockAll() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (absl::Mutex* mutex : mutexes_) mutex->Unlock();
  }

 private:
  std::vector<absl::Mutex*> mutexes_;
};

Ledger::Line::Line(absl::Span<const std::shared_ptr<Account>> accounts,
                   absl::Span<const MemoryPlan> plans) {
  for (size_t i = 0; i < accounts.size(); ++i) {
    Account& account = *accounts[i];
    requests_.push_back({&account, plans[i], account.state().options().now()});
  }
}

absl::Status Ledger::Line::Await(const Wait& wait) {
  RETURN_IF_ERROR(CheckBudgets());
  Join();
  absl::Status status;
  while (!TakeAll()) {
    Tell(wait);
    status = CheckWait(wait);
    if (!status.ok() || EvictAndTakeAll(wait)) break;
    AwaitChange();
  }
  Leave();
  return status;
}

absl::Status Ledger::Line::CheckBudgets() const {
  for (const Request& request : requests_) {
    RETURN_IF_ERROR(StateOf(request).CheckBudget(
        request.account->owner(), request.plan, request.account->task_class()));
  }
  return absl::OkStatus();
}

void Ledger::Line::Join() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const LockAll lock(requests_);
  for (Request& request : requests_) StateOf(request).Join(&request);
}

void Ledger::Line::Leave() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const LockAll lock(requests_);
  for (Request& request : requests_) StateOf(request).Leave(&request);
}

bool Ledger::Line::TakeAll() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const LockAll lock(requests_);
  for (const Request& request : requests_) {
    if (!StateOf(request).IsNextAndFits(request)) return false;
  }
  for (Request& request : requests_) StateOf(request).TryGrant(request);
  return true;
}

bool Ledger::Line::EvictAndTakeAll(const Wait& wait) {
  if (!PromiseAll()) return false;
  for (const Request& request : requests_) StateOf(request).EvictFor(request);
  if (AwaitPromises(wait)) return true;
  TakeBackAll();
  return false;
}

// Only where eviction would do on all ledgers, or models would be evicted for
// nothing.
bool Ledger::Line::PromiseAll() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  std::vector<int64_t> evictable;
  for (const Request& request : requests_) {
    evictable.push_back(StateOf(request).EvictableBytes());
  }
  const LockAll lock(requests_);
  for (size_t i = 0; i < requests_.size(); ++i) {
    const Request& request = requests_[i];
    const State& state = StateOf(request);
    if (state.Before(&request) > 0 || state.HasPromises() ||
        state.Missing(request) > evictable[i]) {
      return false;
    }
  }
  for (Request& request : requests_) StateOf(request).Promise(&request);
  return true;
}

// False as soon as one cannot be kept: a model has come into use meanwhile.
bool Ledger::Line::AwaitPromises(const Wait& wait) {
  for (const Request& request : requests_) {
    State& state = StateOf(request);
    while (true) {
      if (!CheckWait(wait).ok()) return false;
      absl::MutexLock lock(&state.mutex());
      if (state.mutex().AwaitWithTimeout(absl::Condition(&request.granted),
                                         kLook)) {
        break;
      }
      if (state.Missing(request) > 0) return false;
    }
  }
  return true;
}

void Ledger::Line::TakeBackAll() ABSL_NO_THREAD_SAFETY_ANALYSIS {
  const LockAll lock(requests_);
  for (Request& request : requests_) StateOf(request).TakeBack(&request);
}

// On a ledger that is in the way.
void Ledger::Line::AwaitChange() {
  for (const Request& request : requests_) {
    State& state = StateOf(request);
    absl::MutexLock lock(&state.mutex());
    const auto ready = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return state.IsNextAndFits(request);
    };
    if (ready()) continue;
    state.mutex().AwaitWithTimeout(absl::Condition(&ready), kLook);
    return;
  }
}

absl::Status Ledger::Line::CheckWait(const Wait& wait) const {
  const std::string& owner = requests_[0].account->owner();
  if (wait.cancelled != nullptr && wait.cancelled->load()) {
    return absl::CancelledError(
        absl::StrCat(owner, " was cancelled; it ", Reason()));
  }
  if (Now() >= wait.deadline) {
    return absl::DeadlineExceededError(
        absl::StrCat(owner, " waited for memory: ", Reason()));
  }
  return absl::OkStatus();
}

void Ledger::Line::Tell(const Wait& wait) {
  if (!wait.on_wait) return;
  if (!told_.empty() && Now() - told_at_ < kRetell) return;
  std::string reason = Reason();
  if (reason == told_ || reason == kNone) return;
  told_ = std::move(reason);
  told_at_ = Now();
  wait.on_wait(told_);
}

std::string Ledger::Line::Reason() const {
  std::vector<std::string> reasons;
  for (const Request& request : requests_) {
    const State& state = StateOf(request);
    absl::MutexLock lock(&state.mutex());
    if (request.granted || state.IsNextAndFits(request)) continue;
    reasons.push_back(state.Reason(request));
  }
  return reasons.empty() ? kNone : absl::StrJoin(reasons, ", and ");
}

}  // namespace recurve
