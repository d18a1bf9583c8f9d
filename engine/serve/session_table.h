// The sessions that there are: within limits of number and memory, and each
// until it has not been used for so long.
#ifndef RECURVE_ENGINE_SERVE_SESSION_TABLE_H_
#define RECURVE_ENGINE_SERVE_SESSION_TABLE_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/serve/carried_state.h"
#include "engine/serve/model_version.h"

namespace recurve {

struct LiveSession {
  // What the last request was, if it said its position and so may be made
  // again.
  struct Request {
    int64_t rows = 0;
    std::string input_hash;
    bool start = false;
    bool end = false;
  };

  int64_t bytes() const;  // of both rows of its state

  std::string id;
  ModelHandle version;
  std::shared_ptr<CarriedState> state;
  int64_t position = 0;  // rows that it has had
  absl::Time create_time;
  absl::Time last_use_time;
  std::optional<Request> last;
  bool ended = false;  // kept for `last` alone

 private:
  friend class SessionTable;
  std::list<LiveSession*>::iterator place;  // while at rest
  bool at_rest = false;
};

// For one thread at a time. A session is admitted, put, at rest or in use, and
// removed; time is a parameter and does not go back.
class SessionTable {
 public:
  struct Limits {
    absl::Duration idle_timeout = absl::Minutes(10);
    int64_t max_sessions = 100000;
    int64_t max_bytes = int64_t{1} << 30;  // of their states
  };

  explicit SessionTable(const Limits& limits);

  // Null if there is none. Also one that has ended.
  std::shared_ptr<LiveSession> Find(const std::string& id) const;

  // Counts a session that may be put, in place of the one of its id if there is
  // one, or withdrawn. ResourceExhausted, with the numbers, if ending those
  // that are due, and forgetting those that have ended, does not make room for
  // it.
  absl::Status Admit(const LiveSession& session, absl::Time now);
  void Put(std::shared_ptr<LiveSession> session);
  void Withdraw(const LiveSession& session);
  // If it is still the one of its id.
  void Remove(const LiveSession& session);
  bool Has(const LiveSession& session) const;

  // From Put on a session is in use and does not expire.
  void Use(LiveSession& session);
  void Rest(LiveSession& session, absl::Time now);
  absl::Time ExpireTime(const LiveSession& session) const;
  // Removes those that are due.
  void Expire(absl::Time now);

  // By id, ended ones too.
  const std::map<std::string, std::shared_ptr<LiveSession>>& sessions() const {
    return sessions_;
  }
  int64_t bytes() const { return bytes_; }
  int64_t expired() const { return expired_; }  // so far

 private:
  using Line = std::list<LiveSession*>;

  absl::Duration TimeoutOf(const LiveSession& session) const;
  bool HasRoomFor(const LiveSession& session,
                  const LiveSession* replaced) const;
  void ExpireLine(Line& line, absl::Time now);
  void TakePlace(LiveSession& session);

  const Limits limits_;
  const absl::Duration ended_timeout_;
  std::map<std::string, std::shared_ptr<LiveSession>> sessions_;
  // At rest, longest first.
  Line live_;
  Line ended_;
  // Of those that are put or admitted.
  int64_t count_ = 0;
  int64_t bytes_ = 0;
  int64_t expired_ = 0;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_SESSION_TABLE_H_
