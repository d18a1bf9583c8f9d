#include "engine/schedule/ledger_state.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/schedule/format_bytes.h"

namespace recurve {
namespace {

// How many holders a message names.
constexpr size_t kNamedHolders = 3;

MemoryPlan operator-(const MemoryPlan& a, const MemoryPlan& b) {
  return a + MemoryPlan{-b.weights,     -b.gradients, -b.optimizer,
                        -b.activations, -b.workspace, -b.sessions};
}

// Of a budget, for training to read.
std::string KeptForServing(int64_t bytes) {
  return absl::StrCat(
      FormatBytes(bytes),
      " of which are kept for serving (--serving_memory_share)");
}

void Raise(int64_t& high_water, int64_t level) {
  high_water = std::max(high_water, level);
}

}  // namespace

// --- Accounts ---

absl::Status Ledger::Account::Charge(int64_t bytes) {
  absl::MutexLock lock(&state_->mutex());
  if (used_ + bytes > plan_.total()) {
    return absl::InternalError(absl::StrCat(
        "plan exceeded: ", owner_, " reserved ", plan_.total(), " bytes (",
        LargestTerms(plan_), ") on ", state_->options().name, ", uses ", used_,
        " and allocates ", bytes, " more"));
  }
  state_->Set(*this, plan_, used_ + bytes, held_);
  return absl::OkStatus();
}

void Ledger::Account::Refund(int64_t bytes) {
  absl::MutexLock lock(&state_->mutex());
  state_->Set(*this, plan_, used_ - bytes, held_);
}

// --- The books ---

Ledger::State::State(const Options& options) : options_(options) {
  if (options_.workspace_bytes == 0) return;
  absl::MutexLock lock(&mutex_);
  Owner& owner = owners_["workspace"];
  const int64_t bytes = options_.workspace_bytes;
  owner.accounts = 1;
  owner.memory.owner = "workspace";
  owner.memory.plan.workspace = bytes;
  owner.memory.reserved_bytes = owner.memory.reserved_high_water = bytes;
  all_.reserved = reserved_high_water_ = bytes;
}

void Ledger::State::Set(Account& account, const MemoryPlan& plan, int64_t used,
                        bool held) {
  if (Record(account, plan, used, held) < 0) KeepPromises();
}

int64_t Ledger::State::Record(Account& account, const MemoryPlan& plan,
                              int64_t used, bool held) {
  const int64_t reserved_before = account.reserved();
  const int64_t leaving_before = reserved_before - account.plan_.total();
  const bool lived = account.held_ || account.used_ > 0;
  const MemoryPlan plan_change = plan - account.plan_;
  const int64_t used_change = used - account.used_;
  account.plan_ = plan;
  account.used_ = used;
  account.held_ = held;
  const int64_t change = account.reserved() - reserved_before;

  const Sums added = {change,
                      account.reserved() - plan.total() - leaving_before};
  all_ += added;
  if (account.task_class_ == TaskClass::kTraining) training_ += added;
  used_ += used_change;
  Raise(reserved_high_water_, all_.reserved);
  Raise(used_high_water_, used_);

  Owner& owner = owners_[account.owner()];
  owner.memory.owner = account.owner();
  owner.memory.plan = owner.memory.plan + plan_change;
  owner.memory.reserved_bytes += change;
  owner.memory.used_bytes += used_change;
  Raise(owner.memory.reserved_high_water, owner.memory.reserved_bytes);
  Raise(owner.memory.used_high_water, owner.memory.used_bytes);
  owner.accounts += (held || used > 0) - lived;
  if (owner.accounts == 0) owners_.erase(account.owner());
  return change;
}

int64_t Ledger::State::Extra(const Request& request) const {
  return std::max(request.plan.total(), request.account->used_) -
         request.account->reserved();
}

Ledger::State::Room Ledger::State::Whole(const Request& request) const {
  // Half of the range: sums with it do not overflow.
  Room room{options_.budget_bytes > 0 ? options_.budget_bytes
                                      : std::numeric_limits<int64_t>::max() / 2,
            all_, 0};
  for (const Request* promised : promised_) {
    if (promised == &request) break;
    room.claimed += Extra(*promised);
  }
  return room;
}

Ledger::State::Room Ledger::State::TrainingPart(const Request& request) const {
  Room room{Whole(request).bytes - options_.workspace_bytes -
                options_.serving_floor_bytes,
            training_, 0};
  for (const Request* promised : promised_) {
    if (promised == &request) break;
    if (!IsTraining(*promised)) continue;
    room.claimed += Extra(*promised);
  }
  return room;
}

int64_t Ledger::State::Free(const Request& request) const {
  const int64_t free = Whole(request).Free();
  return IsTraining(request) ? std::min(free, TrainingPart(request).Free())
                             : free;
}

bool Ledger::State::Fits(const Request& request) const {
  const int64_t extra = Extra(request);
  return extra <= 0 || extra <= Free(request);
}

bool Ledger::State::TryGrant(Request& request) {
  if (!Fits(request)) return false;
  Grant(request);
  return true;
}

void Ledger::State::Grant(Request& request) {
  request.granted = true;
  Set(*request.account, request.plan, request.account->used_, /*held=*/true);
}

int64_t Ledger::State::Missing(const Request& request) const {
  const auto missing = [extra = Extra(request)](const Room& room) {
    return extra - room.Free() - room.taken.leaving;
  };
  if (IsTraining(request) && missing(TrainingPart(request)) > 0) {
    return kNotEvictable;
  }
  return missing(Whole(request));
}

void Ledger::State::Promise(Request* request) {
  promised_.push_back(request);
  KeepPromises();
}

void Ledger::State::TakeBack(Request* request) {
  if (std::exchange(request->granted, false)) {
    Set(*request->account, MemoryPlan(), 0, /*held=*/false);
  } else {
    promised_.erase(std::find(promised_.begin(), promised_.end(), request));
    KeepPromises();
  }
}

// None overtakes another: the first gets what it needs in the end.
void Ledger::State::KeepPromises() {
  while (!promised_.empty()) {
    Request* const first = promised_.front();
    if (!Fits(*first)) return;
    // Once it is out of the list, the others seem to come before it.
    promised_.pop_front();
    Grant(*first);
  }
}

void Ledger::State::Join(Request* request) { line_.push_back(request); }

void Ledger::State::Leave(Request* request) {
  line_.erase(std::find(line_.begin(), line_.end(), request));
}

int64_t Ledger::State::Before(const Request* request) const {
  return std::find(line_.begin(), line_.end(), request) - line_.begin();
}

void Ledger::State::EvictFor(const Request& request) {
  absl::ReaderMutexLock lock(&evictors_mutex);
  const auto missing = [&] {
    absl::MutexLock lock(&mutex_);
    return request.granted ? 0 : Missing(request);
  };
  int64_t evictable = 0;
  for (Evictor* evictor : evictors) evictable += evictor->EvictableBytes();
  if (evictable < missing()) return;
  for (Evictor* evictor : evictors) {
    const int64_t bytes = missing();
    if (bytes <= 0) return;
    evictor->Evict(bytes);
  }
}

int64_t Ledger::State::EvictableBytes() {
  absl::ReaderMutexLock lock(&evictors_mutex);
  int64_t bytes = 0;
  for (Evictor* evictor : evictors) bytes += evictor->EvictableBytes();
  return bytes;
}

absl::Status Ledger::State::CheckBudget(const std::string& owner,
                                        const MemoryPlan& plan,
                                        TaskClass task_class) const {
  const int64_t floor =
      task_class == TaskClass::kTraining ? options_.serving_floor_bytes : 0;
  const int64_t budget =
      options_.budget_bytes - options_.workspace_bytes - floor;
  if (options_.budget_bytes == 0 || plan.total() <= budget) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      owner, " needs ", FormatBytes(plan.total()), " (", LargestTerms(plan),
      "); the budget of ", options_.name, " is ",
      FormatBytes(options_.budget_bytes),
      options_.workspace_bytes == 0
          ? ""
          : absl::StrCat(", of which its threads' workspace takes ",
                         FormatBytes(options_.workspace_bytes)),
      floor == 0 ? "" : absl::StrCat(", ", KeptForServing(floor))));
}

std::string Ledger::State::Need(const Request& request) const {
  const int64_t total = request.plan.total();
  const int64_t extra = Extra(request);
  const std::string terms = absl::StrCat(" (", LargestTerms(request.plan), ")");
  if (extra == total) return absl::StrCat("needs ", FormatBytes(total), terms);
  return absl::StrCat("needs ", FormatBytes(extra), " more, ",
                      FormatBytes(total), " in all", terms);
}

std::string Ledger::State::Reason(const Request& request) const {
  const int64_t free = std::max<int64_t>(Free(request), 0);
  std::string reason =
      absl::StrCat(Need(request), ", ", FormatBytes(free), " free of ",
                   FormatBytes(options_.budget_bytes), " of ", options_.name);
  if (IsTraining(request) && options_.serving_floor_bytes > 0) {
    absl::StrAppend(&reason, ", ",
                    KeptForServing(options_.serving_floor_bytes));
  }
  absl::StrAppend(&reason, Holders());
  if (all_.leaving > 0) {
    absl::StrAppend(&reason, "; ", FormatBytes(all_.leaving), " being freed");
  }
  if (const int64_t before = Before(&request);
      before > 0 && before < static_cast<int64_t>(line_.size())) {
    absl::StrAppend(&reason, "; ", before, " in line before it");
  } else if (Fits(request)) {
    absl::StrAppend(&reason, "; waits for other devices");
  }
  return reason;
}

std::string Ledger::State::Holders() const {
  std::vector<const OwnerMemory*> holders;
  for (const auto& [name, owner] : owners_) {
    if (owner.memory.reserved_bytes > 0) holders.push_back(&owner.memory);
  }
  if (holders.empty()) return "";
  std::stable_sort(holders.begin(), holders.end(),
                   [](const OwnerMemory* a, const OwnerMemory* b) {
                     return a->reserved_bytes > b->reserved_bytes;
                   });
  const size_t named = std::min(holders.size(), kNamedHolders);
  std::vector<std::string> texts;
  for (size_t i = 0; i < named; ++i) {
    texts.push_back(absl::StrCat(holders[i]->owner, " ",
                                 FormatBytes(holders[i]->reserved_bytes)));
  }
  if (named < holders.size()) {
    texts.push_back(absl::StrCat(holders.size() - named, " more"));
  }
  return absl::StrCat("; held by ", absl::StrJoin(texts, ", "));
}

void Ledger::State::EndReservation(Account& account) {
  absl::MutexLock lock(&mutex_);
  Set(account, MemoryPlan(), account.used_, /*held=*/false);
}

void Ledger::State::Move(const MemoryPlan& part, Account& from, Account& to) {
  absl::MutexLock lock(&mutex_);
  Record(from, from.plan_ - part, from.used_, /*held=*/true);
  Record(to, part, to.used_, /*held=*/true);
}

MemoryPlan Ledger::State::PlanOf(const Account& account) const {
  absl::MutexLock lock(&mutex_);
  return account.plan_;
}

int64_t Ledger::State::UsedBy(const Account& account) const {
  absl::MutexLock lock(&mutex_);
  return account.used_;
}

LedgerSnapshot Ledger::State::Snapshot() const {
  absl::MutexLock lock(&mutex_);
  LedgerSnapshot snapshot;
  snapshot.name = options_.name;
  snapshot.budget_bytes = options_.budget_bytes;
  snapshot.serving_floor_bytes = options_.serving_floor_bytes;
  snapshot.reserved_bytes = all_.reserved;
  snapshot.used_bytes = used_;
  snapshot.reserved_high_water = reserved_high_water_;
  snapshot.used_high_water = used_high_water_;
  for (const auto& [name, owner] : owners_) {
    snapshot.owners.push_back(owner.memory);
  }
  const auto add =
      [&](const Request& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        snapshot.waiting.push_back({request.account->owner(),
                                    request.plan - request.account->plan_,
                                    Reason(request), request.since});
      };
  for (const Request* request : promised_) add(*request);
  for (const Request* request : line_) {
    const bool was_added =
        std::count(promised_.begin(), promised_.end(), request) > 0;
    if (!request->granted && !was_added) add(*request);
  }
  return snapshot;
}

}  // namespace recurve
