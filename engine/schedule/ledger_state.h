// The books of a ledger: who holds what, who waits for how much. It does not
// wait itself: ledger.cc and ledger_line.cc do.
#ifndef RECURVE_ENGINE_SCHEDULE_LEDGER_STATE_H_
#define RECURVE_ENGINE_SCHEDULE_LEDGER_STATE_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/schedule/ledger.h"

namespace recurve {

// One reservation and what is allocated of it. Lives as long as its handle and
// its buffers. All but what is const belongs to the state's lock.
class Ledger::Account {
 public:
  Account(std::shared_ptr<State> state, std::string owner, TaskClass task_class)
      : state_(std::move(state)),
        owner_(std::move(owner)),
        task_class_(task_class) {}

  const std::string& owner() const { return owner_; }
  TaskClass task_class() const { return task_class_; }
  State& state() const { return *state_; }

  // Counts `bytes` as used, or not any more. Internal for more than the plan.
  absl::Status Charge(int64_t bytes);
  void Refund(int64_t bytes);

 private:
  friend class State;

  const std::shared_ptr<State> state_;
  const std::string owner_;
  const TaskClass task_class_;
  MemoryPlan plan_;
  int64_t used_ = 0;
  bool held_ = false;  // by a handle, once granted

  int64_t reserved() const { return std::max(plan_.total(), used_); }
};

class Ledger::State : public std::enable_shared_from_this<Ledger::State> {
 public:
  // A request that is not granted yet; lives on the stack of who waits.
  struct Request {
    Account* account;
    MemoryPlan plan;  // what the account is to hold
    absl::Time since;
    bool granted = false;
  };

  explicit State(const Options& options);

  const Options& options() const { return options_; }
  absl::Mutex& mutex() const ABSL_LOCK_RETURNED(mutex_) { return mutex_; }

  // Whether it fits now, beside what is promised to those who come before it.
  bool Fits(const Request& request) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Grants it if it fits.
  bool TryGrant(Request& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Bytes that eviction has to bring for it to fit in the end, those not
  // counted that are being freed already: at most 0 if none are needed,
  // kNotEvictable where training's own part of the budget is what is short.
  static constexpr int64_t kNotEvictable = std::numeric_limits<int64_t>::max();
  int64_t Missing(const Request& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Promises it the memory that is being freed: granted as it comes. Those
  // promised before come first, others get only what is left.
  void Promise(Request* request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes a promise back, and what was granted, if nothing is used yet.
  void TakeBack(Request* request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasPromises() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !promised_.empty();
  }

  // The line of those who are promised nothing; its own members decide when it
  // is whose turn.
  void Join(Request* request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(Request* request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsNextAndFits(const Request& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return Before(&request) == 0 && Fits(request);
  }
  // How many are in line before it.
  int64_t Before(const Request* request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Asks evictors for what the request misses, if together they can give it.
  void EvictFor(const Request& request) ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t EvictableBytes() ABSL_LOCKS_EXCLUDED(mutex_);

  // OK if nothing but others' reservations is in the way.
  absl::Status CheckBudget(const std::string& owner, const MemoryPlan& plan,
                           TaskClass task_class) const;
  // "needs 1.2 GiB (...), 0.3 GiB of the 2.0 GiB of devices/0 are free; held by
  // ..."
  std::string Reason(const Request& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Gives back all but what is in use.
  void EndReservation(Account& account) ABSL_LOCKS_EXCLUDED(mutex_);
  // From one account of an owner to another.
  void Move(const MemoryPlan& part, Account& from, Account& to)
      ABSL_LOCKS_EXCLUDED(mutex_);
  MemoryPlan PlanOf(const Account& account) const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t UsedBy(const Account& account) const ABSL_LOCKS_EXCLUDED(mutex_);
  LedgerSnapshot Snapshot() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class Account;

  struct Owner {
    OwnerMemory memory;
    int accounts = 0;  // held or with buffers
  };
  struct Sums {
    int64_t reserved = 0;
    int64_t leaving = 0;  // of it, beyond plans

    void operator+=(const Sums& other) {
      reserved += other.reserved;
      leaving += other.leaving;
    }
  };
  // A part of the budget that requests have to fit into: all of it, or what
  // training may have.
  struct Room {
    int64_t bytes;
    Sums taken;
    int64_t claimed;  // promised to those that come before the request

    int64_t Free() const { return bytes - taken.reserved - claimed; }
  };

  // Sets what an account holds and uses, and all sums with it; the bytes that
  // it has reserved more than before.
  int64_t Record(Account& account, const MemoryPlan& plan, int64_t used,
                 bool held) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same, and gives others what has become free.
  void Set(Account& account, const MemoryPlan& plan, int64_t used, bool held)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Grant(Request& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Grants what was promised and now fits, in turn.
  void KeepPromises() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static bool IsTraining(const Request& request) {
    return request.account->task_class() == TaskClass::kTraining;
  }
  // Bytes that granting would add.
  int64_t Extra(const Request& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Room Whole(const Request& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Room TrainingPart(const Request& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The least that the rooms have which the request has to fit into.
  int64_t Free(const Request& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Need(const Request& request) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string Holders() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  mutable absl::Mutex mutex_;
  Sums all_ ABSL_GUARDED_BY(mutex_);
  Sums training_ ABSL_GUARDED_BY(mutex_);  // of them, training's
  int64_t used_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t reserved_high_water_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t used_high_water_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Owner> owners_ ABSL_GUARDED_BY(mutex_);
  std::deque<Request*> promised_ ABSL_GUARDED_BY(mutex_);
  std::deque<Request*> line_ ABSL_GUARDED_BY(mutex_);

 public:
  // Held for reading while evictors are called, without mutex().
  absl::Mutex evictors_mutex;
  std::vector<Evictor*> evictors ABSL_GUARDED_BY(evictors_mutex);
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SCHEDULE_LEDGER_STATE_H_
