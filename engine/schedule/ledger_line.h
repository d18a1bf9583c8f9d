// Waiting for the memory of several devices at once.
#ifndef RECURVE_ENGINE_SCHEDULE_LEDGER_LINE_H_
#define RECURVE_ENGINE_SCHEDULE_LEDGER_LINE_H_

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/schedule/ledger.h"
#include "engine/schedule/ledger_state.h"

namespace recurve {

// One request's place in the lines of all the ledgers that it needs. It enters
// them at one instant, so two requests stand in the same order wherever both
// stand, and the one that came first of all has nobody before it. It is granted
// on all ledgers at one instant, or, where memory has to be freed first, is
// promised that memory on all of them; until then it keeps nobody else out but
// those behind it.
class Ledger::Line {
 public:
  // What each account, of a ledger each, is to hold.
  Line(absl::Span<const std::shared_ptr<Account>> accounts,
       absl::Span<const MemoryPlan> plans);

  // Until all is granted; else nothing is. Errors of ReserveAll.
  absl::Status Await(const Wait& wait);

 private:
  using Request = State::Request;
  class LockAll;

  absl::Status CheckBudgets() const;
  void Join();
  void Leave();
  bool TakeAll();
  // True if it is granted what it was promised.
  bool EvictAndTakeAll(const Wait& wait);
  bool PromiseAll();
  bool AwaitPromises(const Wait& wait);
  void TakeBackAll();
  void AwaitChange();
  absl::Status CheckWait(const Wait& wait) const;
  void Tell(const Wait& wait);
  std::string Reason() const;

  static State& StateOf(const Request& request) {
    return request.account->state();
  }
  absl::Time Now() const { return StateOf(requests_[0]).options().now(); }

  std::deque<Request> requests_;  // at fixed addresses
  std::string told_;
  absl::Time told_at_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SCHEDULE_LEDGER_LINE_H_
