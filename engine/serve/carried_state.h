// What one sequence carries from a request to the next: Model::carry_size
// floats, the recurrent state first.
#ifndef RECURVE_ENGINE_SERVE_CARRIED_STATE_H_
#define RECURVE_ENGINE_SERVE_CARRIED_STATE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace recurve {

class StateBlock;

// Two rows: the *committed* carry, which a request starts from, and another,
// which its passes write. A request that succeeds swaps them, so the other is
// then what was committed before, the *previous* one; a request that fails
// leaves the committed one as it was, to the bit, and no previous one if it had
// got as far as a pass.
//
// The rows are in host memory or, if they may, in the pool of a device; only
// the batcher moves them. At most one request at a time uses a state, which is
// the caller's business; the rest is thread-safe.
class CarriedState : public std::enable_shared_from_this<CarriedState> {
 public:
  enum class Kind {
    kHostOnly,  // short-lived: it isn't worth a place on a device
    kPooled,    // goes to a device's pool while there is room
  };
  using Values = std::vector<float>;  // [carry_size]

  // Committed are zeros: where a sequence begins.
  static std::shared_ptr<CarriedState> Create(int64_t carry_size, Kind kind);
  // Committed are these.
  static std::shared_ptr<CarriedState> Create(Values values, Kind kind);
  ~CarriedState();

  CarriedState(const CarriedState&) = delete;
  CarriedState& operator=(const CarriedState&) = delete;

  int64_t carry_size() const { return carry_size_; }
  Kind kind() const { return kind_; }

  // The committed values, now or, if they are on a device, later on its thread.
  // With a request under way those from before it. An error only if a device
  // lost them.
  void Read(std::function<void(absl::StatusOr<Values>)> done) const;
  // Whether there is a previous carry.
  bool can_replay() const;
  // Where the rows are: a device's rank; absent: in host memory.
  std::optional<int> device() const;

  // Has the rows moved to host memory, soon, where they stay: for one that no
  // request writes any more.
  void LeaveDevice();

  // --- The batcher's side: for the thread that runs the request ---

  // Row 0 or 1.
  int committed() const;
  int other() const { return 1 - committed(); }
  // The other row is about to be written: it is no previous one any more.
  void BeginWrite();
  void Commit();

  // In host memory: the rows. REQUIRES: no device has them.
  float* row(int index);

  // On a device: its place there. Null: in host memory.
  struct Place {
    std::shared_ptr<StateBlock> block;
    int slot = 0;
  };
  Place place() const;
  // The rows have been copied there; on that device's thread.
  void MoveTo(Place place);
  // The rows have been copied from there, or an error has lost them.
  void MoveToHost(Values rows[2], const absl::Status& lost);
  // Why no request can go on from it.
  absl::Status lost() const;

 private:
  CarriedState(int64_t carry_size, Kind kind);

  const int64_t carry_size_;
  const Kind kind_;
  mutable absl::Mutex mutex_;
  Values rows_[2] ABSL_GUARDED_BY(mutex_);  // empty while on a device
  Place place_ ABSL_GUARDED_BY(mutex_);
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);
  int committed_ ABSL_GUARDED_BY(mutex_) = 0;
  bool has_previous_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_CARRIED_STATE_H_
