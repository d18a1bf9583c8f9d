// Who holds how much of a device's memory. One ledger a device (or a group of
// devices that share one physical memory), used by serving and training alike:
// nothing is allocated on the device that was not reserved here first, so that
// nobody runs out of memory in the middle of work.
//
//   Ledger ledger({.name = "devices/0", .budget_bytes = 2 << 30});
//
//   // On the device's thread: serving, which takes what is there now ...
//   ASSIGN_OR_RETURN(Ledger::Reservation held,
//                    ledger.TryReserve("models/lm/versions/3",
//                                      InferencePlan(model, {1024, 16})));
//   // ... elsewhere a trainer, which is refused at once ...
//   ASSIGN_OR_RETURN(Ledger::Reservation held,
//                    ledger.Reserve("trainers/y", TrainingPlan(model, shape),
//                                   TaskClass::kTraining));
//   // ... or a job, which waits in line for all its devices at once.
//   ASSIGN_OR_RETURN(std::vector<Ledger::Reservation> held,
//                    Ledger::ReserveAll("jobs/x",
//                                       {{&ledger, TrainingPlan(model,
//                                       shape)}},
//                                       {.cancelled = &cancelled}));
//
//   // On the device's thread: what is allocated through the account adds to
//   // the owner's used bytes, and cannot exceed what is reserved.
//   AccountBackend backend(device_backend, held.account());
//   ASSIGN_OR_RETURN(auto buffer, backend.Allocate(bytes));
//
//   // A larger batch comes: grows (or shrinks) what is held.
//   RETURN_IF_ERROR(held.Resize(InferencePlan(model, {4096, 16})));
//
// A reservation ends with its handle. Bytes that its buffers still occupy
// then, because they are freed on the device's thread a little later, stay
// reserved until the last of them is gone: `reserved` is never less than
// `used`, of each owner and in all.
//
// Training leaves a part of the budget alone, so that a model which is not
// loaded can be served while a job runs that takes all it may. Serving may use
// whatever is free.
//
// Who waits for memory holds none meanwhile: nobody waits for someone who
// waits.
#ifndef RECURVE_ENGINE_SCHEDULE_LEDGER_H_
#define RECURVE_ENGINE_SCHEDULE_LEDGER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/schedule/memory_plan.h"
#include "engine/schedule/task_class.h"

namespace recurve {

// Something of serving's that holds memory which it can do without: idle
// models. Thread-safe and called without the ledger's lock; it may call the
// ledger back.
class Evictor {
 public:
  virtual ~Evictor() = default;
  // Bytes that it would give up now.
  virtual int64_t EvictableBytes() = 0;
  // Gives up at least `bytes`, or all that it can, least recently used first:
  // ends those reservations, or shrinks them, before it returns, and sees that
  // their buffers are freed soon; now, if it is called on the device's thread.
  virtual void Evict(int64_t bytes) = 0;
};

struct OwnerMemory {
  std::string owner;
  MemoryPlan plan;                  // of all its reservations that are held
  int64_t reserved_bytes = 0;       // more than the plan while buffers go
  int64_t used_bytes = 0;           // allocated now
  int64_t reserved_high_water = 0;  // since the owner's first reservation
  int64_t used_high_water = 0;
};

struct WaitingRequest {
  std::string owner;
  MemoryPlan plan;  // what it asks for in addition
  std::string reason;
  absl::Time since;
};

// All at one instant.
struct LedgerSnapshot {
  std::string name;
  int64_t budget_bytes = 0;         // 0 = not limited
  int64_t serving_floor_bytes = 0;  // of it, what training leaves
  int64_t reserved_bytes = 0;
  int64_t used_bytes = 0;
  int64_t reserved_high_water = 0;
  int64_t used_high_water = 0;
  std::vector<OwnerMemory> owners;      // by name
  std::vector<WaitingRequest> waiting;  // in line
};

// Thread-safe.
class Ledger {
 public:
  struct Options {
    std::string name;          // for messages: devices/0
    int64_t budget_bytes = 0;  // 0 = not limited
    // Taken off the budget for good, under the owner `workspace`: what the
    // device's threads keep for themselves (WorkspacePlan).
    int64_t workspace_bytes = 0;
    // What training's owners together leave of the rest (ServingFloor).
    int64_t serving_floor_bytes = 0;
    std::function<absl::Time()> now = absl::Now;
  };

  class Account;  // see AccountBackend

  // Memory held for an owner. Movable; ends with its destruction. One thread at
  // a time uses a handle; Release and destruction need no device thread.
  class Reservation {
   public:
    Reservation() = default;  // holds nothing
    Reservation(Reservation&& other) noexcept;
    Reservation& operator=(Reservation&& other) noexcept;
    ~Reservation() { Release(); }

    explicit operator bool() const { return account_ != nullptr; }
    const std::shared_ptr<Account>& account() const { return account_; }
    MemoryPlan plan() const;
    int64_t used_bytes() const;

    // Holds `plan` instead. Growing is like Reserve, or TryReserve, of the
    // difference: an error changes nothing. Shrinking always succeeds; bytes
    // that are in use go when their buffers do. REQUIRES: holds something.
    absl::Status Resize(const MemoryPlan& plan);
    absl::Status TryResize(const MemoryPlan& plan);
    // Gives `part` of it to a reservation of its own, of the same owner. At no
    // time is less held. REQUIRES: each kind of `part` is held, and not in use.
    Reservation Split(const MemoryPlan& part);
    // Ends it now; holds nothing afterwards.
    void Release();

   private:
    friend class Ledger;
    explicit Reservation(std::shared_ptr<Account> account)
        : account_(std::move(account)) {}

    std::shared_ptr<Account> account_;
  };

  struct Wait {
    absl::Time deadline = absl::InfiniteFuture();
    const std::atomic<bool>* cancelled = nullptr;  // looked at every 50 ms
    // On the calling thread: the reason, for people, once it has to wait, and
    // again when it is another one, if the last time is kRetell ago.
    std::function<void(const std::string& reason)> on_wait;
  };
  static constexpr absl::Duration kRetell = absl::Seconds(10);

  struct Need {
    Ledger* ledger;
    MemoryPlan plan;
  };

  explicit Ledger(Options options);
  // All reservations and buffers may outlive the ledger.
  ~Ledger();

  // For serving: what fits now, if need be after asking the evictors; does not
  // wait for memory that is only on its way back, but is Aborted then, as
  // it will be there once the device's thread has done what is in its queues.
  // For that thread; from elsewhere Reserve is better. Else errors of Reserve.
  absl::StatusOr<Reservation> TryReserve(const std::string& owner,
                                         const MemoryPlan& plan);

  // The same, and waits until evicted memory has been freed, which needs the
  // device's thread: never call it there. Goes before requests that wait in
  // line.
  //
  // ResourceExhausted has the numbers: "jobs/x needs 1.2 GiB (activations 1.0
  // GiB, weights 0.2 GiB): 0.3 GiB of the 2.0 GiB of devices/0 are free; held
  // by models/a/versions/1 0.9 GiB, ...".
  absl::StatusOr<Reservation> Reserve(
      const std::string& owner, const MemoryPlan& plan,
      TaskClass task_class = TaskClass::kServing);

  // For training, on several ledgers at once: holds all of it or nothing. Waits
  // until all of them have room, first come first served: nobody goes before
  // another who came earlier and waits for one of the same ledgers, however
  // little it needs. Idle models are evicted for the first in line, where that
  // is all that is missing. The reservations are in the order of `needs`, whose
  // ledgers all differ.
  //
  // ResourceExhausted, at once, only for what a whole budget, less serving's
  // part, does not hold; DeadlineExceeded and Cancelled, with the reason for
  // the wait, as `wait` says. Not on a device's thread.
  static absl::StatusOr<std::vector<Reservation>> ReserveAll(
      const std::string& owner, absl::Span<const Need> needs, const Wait& wait);

  // Asked in the order of registration. `evictor` lives until it is removed;
  // Remove returns when no call to it is under way.
  void AddEvictor(Evictor* evictor);
  void RemoveEvictor(Evictor* evictor);

  const std::string& name() const;
  int64_t budget_bytes() const;  // 0 = not limited
  int64_t serving_floor_bytes() const;
  // Reserves nothing: whether `plan` would fit if nobody else held anything.
  // ResourceExhausted as Reserve says it.
  absl::Status CheckFitsBudget(
      const std::string& owner, const MemoryPlan& plan,
      TaskClass task_class = TaskClass::kServing) const;
  LedgerSnapshot Snapshot() const;

 private:
  class State;
  class Acquisition;
  class Line;
  // Shared with accounts, so that buffers may be freed after the ledger.
  const std::shared_ptr<State> state_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SCHEDULE_LEDGER_H_
