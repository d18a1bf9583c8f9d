// Live sequences by name: whose turn it is on each, and where it is. What is
// computed on them is no business of the store: a request takes a lease, runs
// what it will on the lease's state, and commits the rows.
//
// One request has a session at a time; others wait, first come first served. A
// lease that is dropped leaves the session as before. A request that says its
// position is applied once however often it is made: made again, it gets a
// lease to be answered by, from the state before it.
#ifndef RECURVE_ENGINE_SERVE_SESSION_STORE_H_
#define RECURVE_ENGINE_SERVE_SESSION_STORE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/serve/call_control.h"
#include "engine/serve/carried_state.h"
#include "engine/serve/model_version.h"
#include "engine/serve/session_table.h"

namespace recurve {

class SessionStore;

inline constexpr size_t kMaxSessionIdBytes = 256;

// A request's part of a session.
struct SessionUse {
  std::string id;  // any bytes, 1 to kMaxSessionIdBytes of them
  // Begins the session, from zeros, on `version`; one of that id is replaced
  // when the request commits.
  bool start = false;
  ModelHandle version;  // with start
  bool end = false;     // the session ends when the request commits
  // Rows that the session has had before the request, at most kMaxSessionRows;
  // 0 with start. Absent: not checked, and the request is applied as often as
  // it is made.
  std::optional<int64_t> position;
  std::string input_hash;  // with position: tells its rows from all others
  int64_t bytes = 0;       // of what is kept while it waits
  CallControl control;
};

// The right to use a session, until destruction; its store outlives it. For one
// thread at a time.
class SessionLease {
 public:
  SessionLease(const SessionLease&) = delete;
  SessionLease& operator=(const SessionLease&) = delete;
  ~SessionLease();

  const std::string& id() const { return use_.id; }
  // That the session is on, or begins on.
  const ModelHandle& version() const { return session_->version; }
  // To run on: what is committed there is the session's.
  const std::shared_ptr<CarriedState>& state() const { return session_->state; }
  // Rows that the session had before the request.
  int64_t position() const { return position_; }
  // The session's last request once more: to be run from the state before that
  // one, which stays as it is (BatcherRequest::replay).
  bool replay() const { return replay_; }

  // FailedPrecondition if with that many more the session would have had more
  // rows than kMaxSessionRows.
  absl::Status CheckRows(int64_t rows) const;
  // Once, when the state is as after the request. The rows that the session has
  // then had. REQUIRES: CheckRows(rows).
  int64_t Commit(int64_t rows);
  // The same with another state, of the same size, in the place of the
  // session's. REQUIRES: no replay.
  int64_t CommitState(std::shared_ptr<CarriedState> state, int64_t rows);
  // The session goes on with a version whose states have the same shape.
  void Move(ModelHandle version);

 private:
  friend class SessionStore;
  SessionLease(SessionStore& store, SessionUse use,
               std::shared_ptr<LiveSession> session)
      : store_(store), use_(std::move(use)), session_(std::move(session)) {}

  SessionStore& store_;
  const SessionUse use_;
  const std::shared_ptr<LiveSession> session_;  // the store's, or to be
  int64_t position_ = 0;
  bool replay_ = false;
  bool committed_ = false;
};

// A session in a state that is known.
struct NewSession {
  std::string id;
  ModelHandle version;
  int64_t position = 0;                        // at most kMaxSessionRows
  CarriedState::Values carry = {};             // [carry_size]; empty = zeros
  std::optional<absl::Time> create_time = {};  // absent: now
};

struct SessionInfo {
  std::string id;
  ModelHandle version;
  int64_t position = 0;
  absl::Time create_time;
  absl::Time last_use_time;
  absl::Time expire_time;     // unless it is used before
  std::optional<int> device;  // absent: in host memory
  int64_t state_bytes = 0;
};

// Thread-safe. Callbacks are called outside its lock: by the call that asks, by
// the end of another's lease, or by DoUpkeep.
class SessionStore {
 public:
  struct Options {
    SessionTable::Limits limits;
    size_t max_waiting_per_session = 64;  // requests
    int64_t max_waiting = 1024;           // on all sessions
    int64_t max_waiting_bytes = int64_t{1} << 30;
    std::function<absl::Time()> clock = absl::Now;
  };
  struct Statistics {
    int64_t sessions = 0;
    int64_t bytes = 0;    // of their states
    int64_t waiting = 0;  // requests, for the end of another
    // Since the start.
    int64_t started = 0;
    int64_t expired = 0;
  };
  using Lease = std::shared_ptr<SessionLease>;
  using Ready = std::function<void(absl::StatusOr<Lease>)>;

  explicit SessionStore(Options options);
  // Waits for the end of every lease.
  ~SessionStore();

  // Calls `ready` once: with a lease when it is the request's turn, or with
  //   InvalidArgument     for an id or a position that none can have
  //   NotFound            there is no such session, and the use does not start
  //   FailedPrecondition  it is elsewhere than `position`, and says where; or
  //                       the version is bidirectional, and so has no state
  //   ResourceExhausted   a limit of Options, with the numbers
  //   Cancelled, DeadlineExceeded  as its control says
  void Acquire(SessionUse use, Ready ready);

  // AlreadyExists; Aborted while a request uses that id; else as Acquire.
  absl::StatusOr<SessionInfo> Create(NewSession session);
  // At once; a request that uses it goes on, for nothing. NotFound.
  absl::Status Delete(const std::string& id);

  absl::StatusOr<SessionInfo> Get(const std::string& id) const;
  // By id, at most `limit`, those after the id `after` on versions that are
  // `wanted`.
  std::vector<SessionInfo> List(
      const std::string& after, int64_t limit,
      const std::function<bool(const ModelVersion&)>& wanted) const;
  int64_t CountOn(const ModelVersion& version) const;
  Statistics statistics() const;

  // Ends sessions that are idle for too long, and answers waiting requests that
  // nobody wants any more. To be called a few times a second.
  void DoUpkeep();

 private:
  friend class SessionLease;
  struct Waiter {
    SessionUse use;
    Ready ready;
  };
  // Of an id that is in use.
  struct Line {
    bool leased = false;
    bool dispatching = false;  // a thread hands out turns
    std::deque<Waiter> waiters;
  };
  struct Turn {
    Ready ready;
    absl::StatusOr<Lease> lease;
  };

  // Hands out turns until one is taken or nobody waits.
  void Dispatch(const std::string& id);
  std::optional<Turn> NextTurn(const std::string& id);
  absl::StatusOr<Lease> Grant(SessionUse use)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Lease> GrantStart(SessionUse use, LiveSession* replaced)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckMayWait(const Line& line, int64_t bytes) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void CountWaiter(const Waiter& waiter, int sign)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Turn> TakeUnwanted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Null for one that has ended.
  std::shared_ptr<LiveSession> FindLive(const std::string& id) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  SessionInfo Describe(const LiveSession& session) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  // Of leases.
  int64_t Commit(SessionLease& lease, std::shared_ptr<CarriedState> state,
                 int64_t rows);
  void Move(SessionLease& lease, ModelHandle version);
  void Release(SessionLease& lease);

  const Options options_;
  mutable absl::Mutex mutex_;
  // Its sessions are written under the lock alone, and read without by their
  // lease.
  SessionTable table_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Line> lines_ ABSL_GUARDED_BY(mutex_);
  int64_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t waiting_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t started_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_SESSION_STORE_H_
