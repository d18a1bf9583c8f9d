#include "engine/serve/session_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace recurve {
namespace {

// How long an ended session's last request may be made again.
constexpr absl::Duration kEndedTimeout = absl::Minutes(1);

}  // namespace

int64_t LiveSession::bytes() const {
  return 2 * state->carry_size() * static_cast<int64_t>(sizeof(float));
}

SessionTable::SessionTable(const Limits& limits)
    : limits_(limits),
      ended_timeout_(std::min(limits.idle_timeout, kEndedTimeout)) {}

std::shared_ptr<LiveSession> SessionTable::Find(const std::string& id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second;
}

bool SessionTable::Has(const LiveSession& session) const {
  return Find(session.id).get() == &session;
}

bool SessionTable::HasRoomFor(const LiveSession& session,
                              const LiveSession* replaced) const {
  const int64_t count = count_ + 1 - (replaced == nullptr ? 0 : 1);
  const int64_t bytes =
      bytes_ + session.bytes() - (replaced == nullptr ? 0 : replaced->bytes());
  return count <= limits_.max_sessions && bytes <= limits_.max_bytes;
}

absl::Status SessionTable::Admit(const LiveSession& session, absl::Time now) {
  Expire(now);
  while (!ended_.empty() && !HasRoomFor(session, Find(session.id).get())) {
    Remove(*ended_.front());
  }
  if (!HasRoomFor(session, Find(session.id).get())) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a session of ", session.bytes(), " bytes beside ", count_,
        " others of ", bytes_, " bytes: the limits are ", limits_.max_sessions,
        " sessions and ", limits_.max_bytes, " bytes; end some"));
  }
  ++count_;
  bytes_ += session.bytes();
  return absl::OkStatus();
}

void SessionTable::Put(std::shared_ptr<LiveSession> session) {
  if (const auto replaced = Find(session->id)) Remove(*replaced);
  sessions_[session->id] = std::move(session);
}

void SessionTable::Withdraw(const LiveSession& session) {
  --count_;
  bytes_ -= session.bytes();
}

void SessionTable::Remove(const LiveSession& session) {
  if (!Has(session)) return;
  const auto found = sessions_.find(session.id);
  TakePlace(*found->second);
  Withdraw(session);
  sessions_.erase(found);
}

void SessionTable::TakePlace(LiveSession& session) {
  if (!session.at_rest) return;
  (session.ended ? ended_ : live_).erase(session.place);
  session.at_rest = false;
}

void SessionTable::Use(LiveSession& session) { TakePlace(session); }

void SessionTable::Rest(LiveSession& session, absl::Time now) {
  if (!Has(session)) return;
  TakePlace(session);
  session.last_use_time = now;
  Line& line = session.ended ? ended_ : live_;
  session.place = line.insert(line.end(), &session);
  session.at_rest = true;
}

absl::Duration SessionTable::TimeoutOf(const LiveSession& session) const {
  return session.ended ? ended_timeout_ : limits_.idle_timeout;
}

absl::Time SessionTable::ExpireTime(const LiveSession& session) const {
  return session.last_use_time + TimeoutOf(session);
}

void SessionTable::ExpireLine(Line& line, absl::Time now) {
  while (!line.empty() && ExpireTime(*line.front()) <= now) {
    if (!line.front()->ended) ++expired_;
    Remove(*line.front());
  }
}

void SessionTable::Expire(absl::Time now) {
  ExpireLine(live_, now);
  ExpireLine(ended_, now);
}

}  // namespace recurve
