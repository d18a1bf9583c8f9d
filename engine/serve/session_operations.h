// What is done with a session's whole state. Each waits for its turn on the
// session like any request, and counts as a use of it.
#ifndef RECURVE_ENGINE_SERVE_SESSION_OPERATIONS_H_
#define RECURVE_ENGINE_SERVE_SESSION_OPERATIONS_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/serve/call_control.h"
#include "engine/serve/model_version.h"
#include "engine/serve/session_snapshot.h"
#include "engine/serve/session_store.h"

namespace recurve {

// `done` is called once, on any thread; errors are those of
// SessionStore::Acquire and Create.

void SnapshotSession(SessionStore& store, const std::string& id,
                     const CallControl& control,
                     std::function<void(absl::StatusOr<SessionSnapshot>)> done);

// A second session, `new_id`, in the same state.
void ForkSession(SessionStore& store, const std::string& id,
                 const std::string& new_id, const CallControl& control,
                 std::function<void(absl::StatusOr<SessionInfo>)> done);

// The session goes on with `version`, or stays where it is:
// FailedPrecondition where the states differ in shape.
void MoveSession(SessionStore& store, const std::string& id,
                 const ModelHandle& version, const CallControl& control,
                 std::function<void(absl::StatusOr<SessionInfo>)> done);

// A new session in the state of the snapshot, made at `created` or now. Errors
// also as CheckFits.
absl::StatusOr<SessionInfo> RestoreSession(
    SessionStore& store, const std::string& id, const ModelHandle& version,
    SessionSnapshot snapshot, std::optional<absl::Time> created = {});

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_SESSION_OPERATIONS_H_
