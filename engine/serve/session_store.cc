#include "engine/serve/session_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/serve/retry_hint.h"
#include "engine/serve/session_rows.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// A guess of when a request that waits for another has had its turn.
constexpr absl::Duration kTurn = absl::Milliseconds(50);

std::string NameOf(const std::string& id) {
  return absl::StrCat("sessions/", absl::CHexEscape(id));
}

absl::Status CheckId(const std::string& id) {
  if (!id.empty() && id.size() <= kMaxSessionIdBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("session: its id has ", id.size(), " bytes, must have 1 to ",
                   kMaxSessionIdBytes));
}

absl::Status CheckVersion(const ModelVersion& version) {
  if (!version.model->bidirectional()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      version.name, " is bidirectional: it has no state for a session"));
}

absl::Status CheckPositionValue(int64_t position, bool start) {
  if (position >= 0 && position <= (start ? 0 : kMaxSessionRows)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("session.position: is ", position, ", must be ",
                   start ? "0 where the session starts"
                         : absl::StrCat("0 to ", kMaxSessionRows)));
}

absl::Status CheckUse(const SessionUse& use) {
  RETURN_IF_ERROR(CheckId(use.id));
  if (use.start) RETURN_IF_ERROR(CheckVersion(*use.version));
  return CheckPositionValue(use.position.value_or(0), use.start);
}

absl::Status NotFound(const std::string& id) {
  return absl::NotFoundError(
      absl::StrCat(NameOf(id),
                   " is not there: it has not been started, has "
                   "ended, or was idle for too long"));
}

bool IsLastAgain(const LiveSession& session, const SessionUse& use) {
  if (!session.last || !use.position) return false;
  const LiveSession::Request& last = *session.last;
  return *use.position == session.position - last.rows &&
         use.input_hash == last.input_hash && use.start == last.start &&
         use.end == last.end;
}

absl::Status CheckPosition(const LiveSession& session, const SessionUse& use) {
  if (!use.position || *use.position == session.position) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "session.position: is ", *use.position, ", ", NameOf(session.id),
      " is at ", session.position,
      IsLastAgain(session, use)
          ? ": the request was applied, but its answer is no longer to be had"
          : ""));
}

std::shared_ptr<LiveSession> MakeSession(const NewSession& from,
                                         absl::Time now) {
  auto session = std::make_shared<LiveSession>();
  session->id = from.id;
  session->version = from.version;
  session->position = from.position;
  session->create_time = from.create_time.value_or(now);
  session->last_use_time = now;
  constexpr auto kKind = CarriedState::Kind::kPooled;
  session->state =
      from.carry.empty()
          ? CarriedState::Create(from.version->model->carry_size(), kKind)
          : CarriedState::Create(from.carry, kKind);
  return session;
}

}  // namespace

// --- Leases ---

SessionLease::~SessionLease() { store_.Release(*this); }

absl::Status SessionLease::CheckRows(int64_t rows) const {
  if (rows <= kMaxSessionRows - position_) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      NameOf(id()), " has had ", position_, " rows and gets ", rows,
      " more: the limit is ", kMaxSessionRows, "; begin another"));
}

int64_t SessionLease::Commit(int64_t rows) {
  return store_.Commit(*this, session_->state, rows);
}

int64_t SessionLease::CommitState(std::shared_ptr<CarriedState> state,
                                  int64_t rows) {
  return store_.Commit(*this, std::move(state), rows);
}

void SessionLease::Move(ModelHandle version) {
  store_.Move(*this, std::move(version));
}

int64_t SessionStore::Commit(SessionLease& lease,
                             std::shared_ptr<CarriedState> state,
                             int64_t rows) {
  absl::MutexLock lock(&mutex_);
  LiveSession& session = *lease.session_;
  const SessionUse& use = lease.use_;
  if (lease.replay_) return session.position;
  lease.committed_ = true;
  session.position += rows;
  session.last.reset();
  if (use.position && state == session.state) {
    session.last = {rows, use.input_hash, use.start, use.end};
  }
  session.state = std::move(state);
  if (use.start) {
    ++started_;
    table_.Put(lease.session_);
  }
  if (!use.end) return session.position;
  if (session.last) {
    session.ended = true;
    // It is run again at most, from the rows as they are.
    session.state->LeaveDevice();
  } else {
    table_.Remove(session);
  }
  return session.position;
}

void SessionStore::Move(SessionLease& lease, ModelHandle version) {
  absl::MutexLock lock(&mutex_);
  lease.session_->version = std::move(version);
  lease.session_->last.reset();  // it was of the other version
}

void SessionStore::Release(SessionLease& lease) {
  {
    absl::MutexLock lock(&mutex_);
    const absl::Time now = options_.clock();
    if (lease.use_.start && !lease.replay_ && !lease.committed_) {
      table_.Withdraw(*lease.session_);
    }
    if (const auto session = table_.Find(lease.id())) {
      table_.Rest(*session, now);
    }
    lines_[lease.id()].leased = false;
  }
  Dispatch(lease.id());
}

// --- Turns ---

SessionStore::SessionStore(Options options)
    : options_(std::move(options)), table_(options_.limits) {}

SessionStore::~SessionStore() {
  absl::MutexLock lock(&mutex_);
  const auto unused = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return lines_.empty();
  };
  mutex_.Await(absl::Condition(&unused));
}

void SessionStore::CountWaiter(const Waiter& waiter, int sign) {
  waiting_ += sign;
  waiting_bytes_ += sign * waiter.use.bytes;
}

absl::Status SessionStore::CheckMayWait(const Line& line, int64_t bytes) const {
  absl::Status status;
  if (line.waiters.size() >= options_.max_waiting_per_session) {
    status = absl::ResourceExhaustedError(
        absl::StrCat(line.waiters.size(),
                     " requests wait for this session already, the limit"));
  } else if (waiting_ >= options_.max_waiting ||
             bytes > options_.max_waiting_bytes - waiting_bytes_) {
    status = absl::ResourceExhaustedError(absl::StrCat(
        waiting_, " requests of ", waiting_bytes_,
        " bytes wait for their sessions, the limits are ", options_.max_waiting,
        " and ", options_.max_waiting_bytes, " bytes"));
  }
  if (!status.ok()) {
    SetRetryHint(status, kTurn * static_cast<double>(line.waiters.size() + 1));
  }
  return status;
}

void SessionStore::Acquire(SessionUse use, Ready ready) {
  if (absl::Status status = CheckUse(use); !status.ok()) return ready(status);
  const std::string id = use.id;
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    Line& line = lines_[id];
    if (line.leased || line.dispatching) {
      status = CheckMayWait(line, use.bytes);
    }
    if (status.ok()) {
      line.waiters.push_back({std::move(use), std::move(ready)});
      CountWaiter(line.waiters.back(), 1);
    }
  }
  if (!status.ok()) return ready(status);
  Dispatch(id);
}

void SessionStore::Dispatch(const std::string& id) {
  {
    absl::MutexLock lock(&mutex_);
    const auto line = lines_.find(id);
    // A turn may end, or another come, while one is being handed out: whoever
    // does that goes on.
    if (line == lines_.end() || line->second.dispatching) return;
    line->second.dispatching = true;
  }
  while (std::optional<Turn> turn = NextTurn(id)) {
    turn->ready(std::move(turn->lease));
  }
}

std::optional<SessionStore::Turn> SessionStore::NextTurn(
    const std::string& id) {
  absl::MutexLock lock(&mutex_);
  const auto found = lines_.find(id);
  Line& line = found->second;
  if (line.leased || line.waiters.empty()) {
    line.dispatching = false;
    if (!line.leased) lines_.erase(found);
    return std::nullopt;
  }
  Waiter waiter = std::move(line.waiters.front());
  line.waiters.pop_front();
  CountWaiter(waiter, -1);
  Turn turn = {std::move(waiter.ready), Grant(std::move(waiter.use))};
  line.leased = turn.lease.ok();
  return turn;
}

absl::StatusOr<SessionStore::Lease> SessionStore::Grant(SessionUse use) {
  RETURN_IF_ERROR(use.control.Check());
  table_.Expire(options_.clock());
  const auto session = table_.Find(use.id);
  const bool again = session != nullptr && IsLastAgain(*session, use) &&
                     session->state->can_replay();
  if (!again && use.start) return GrantStart(std::move(use), session.get());
  if (!again) {
    if (session == nullptr || session->ended) return NotFound(use.id);
    RETURN_IF_ERROR(CheckPosition(*session, use));
  }
  table_.Use(*session);
  Lease lease(new SessionLease(*this, std::move(use), session));
  lease->replay_ = again;
  lease->position_ = again ? *lease->use_.position : session->position;
  return lease;
}

absl::StatusOr<SessionStore::Lease> SessionStore::GrantStart(
    SessionUse use, LiveSession* replaced) {
  const absl::Time now = options_.clock();
  auto session = MakeSession({use.id, use.version}, now);
  RETURN_IF_ERROR(table_.Admit(*session, now));
  if (replaced != nullptr) table_.Use(*replaced);
  return Lease(new SessionLease(*this, std::move(use), std::move(session)));
}

// --- All sessions ---

std::shared_ptr<LiveSession> SessionStore::FindLive(
    const std::string& id) const {
  auto session = table_.Find(id);
  const bool gone = session == nullptr || session->ended;
  return gone ? nullptr : session;
}

SessionInfo SessionStore::Describe(const LiveSession& session) const {
  return {session.id,
          session.version,
          session.position,
          session.create_time,
          session.last_use_time,
          table_.ExpireTime(session),
          session.state->device(),
          session.bytes()};
}

absl::StatusOr<SessionInfo> SessionStore::Create(NewSession from) {
  RETURN_IF_ERROR(CheckId(from.id));
  RETURN_IF_ERROR(CheckVersion(*from.version));
  RETURN_IF_ERROR(CheckPositionValue(from.position, /*start=*/false));
  absl::MutexLock lock(&mutex_);
  const absl::Time now = options_.clock();
  table_.Expire(now);
  if (FindLive(from.id) != nullptr) {
    return absl::AlreadyExistsError(
        absl::StrCat(NameOf(from.id), " is there already"));
  }
  if (lines_.count(from.id) > 0) {
    return absl::AbortedError(absl::StrCat("a request uses ", NameOf(from.id),
                                           " meanwhile; try again"));
  }
  auto session = MakeSession(from, now);
  RETURN_IF_ERROR(table_.Admit(*session, now));
  table_.Put(session);
  table_.Rest(*session, now);
  ++started_;
  return Describe(*session);
}

absl::Status SessionStore::Delete(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  table_.Expire(options_.clock());
  const auto session = FindLive(id);
  if (session == nullptr) return NotFound(id);
  table_.Remove(*session);
  return absl::OkStatus();
}

absl::StatusOr<SessionInfo> SessionStore::Get(const std::string& id) const {
  absl::MutexLock lock(&mutex_);
  const auto session = FindLive(id);
  if (session == nullptr) return NotFound(id);
  return Describe(*session);
}

std::vector<SessionInfo> SessionStore::List(
    const std::string& after, int64_t limit,
    const std::function<bool(const ModelVersion&)>& wanted) const {
  absl::MutexLock lock(&mutex_);
  std::vector<SessionInfo> list;
  const auto& sessions = table_.sessions();
  for (auto at = sessions.upper_bound(after); at != sessions.end(); ++at) {
    if (static_cast<int64_t>(list.size()) == limit) break;
    const LiveSession& session = *at->second;
    if (session.ended || !wanted(*session.version)) continue;
    list.push_back(Describe(session));
  }
  return list;
}

int64_t SessionStore::CountOn(const ModelVersion& version) const {
  absl::MutexLock lock(&mutex_);
  return std::count_if(table_.sessions().begin(), table_.sessions().end(),
                       [&](const auto& session) {
                         return session.second->version->Is(version) &&
                                !session.second->ended;
                       });
}

SessionStore::Statistics SessionStore::statistics() const {
  absl::MutexLock lock(&mutex_);
  Statistics statistics;
  for (const auto& [id, session] : table_.sessions()) {
    if (!session->ended) ++statistics.sessions;
  }
  statistics.bytes = table_.bytes();
  statistics.waiting = waiting_;
  statistics.started = started_;
  statistics.expired = table_.expired();
  return statistics;
}

std::vector<SessionStore::Turn> SessionStore::TakeUnwanted() {
  std::vector<Turn> unwanted;
  for (auto& [id, line] : lines_) {
    std::deque<Waiter> wanted;
    for (Waiter& waiter : line.waiters) {
      if (absl::Status status = waiter.use.control.Check(); status.ok()) {
        wanted.push_back(std::move(waiter));
      } else {
        CountWaiter(waiter, -1);
        unwanted.push_back({std::move(waiter.ready), std::move(status)});
      }
    }
    line.waiters = std::move(wanted);
  }
  return unwanted;
}

void SessionStore::DoUpkeep() {
  std::vector<Turn> unwanted;
  {
    absl::MutexLock lock(&mutex_);
    table_.Expire(options_.clock());
    unwanted = TakeUnwanted();
  }
  for (Turn& turn : unwanted) turn.ready(std::move(turn.lease));
}

}  // namespace recurve
