// Sessions on disk, from the end of a server to the start of the next:
//
//   DIRECTORY/N.sessions   N = 1, 2, ...: records, one a session, each with its
//                          length and checksum (docs/sessions.md)
//
// The folder appears whole, or not at all, and is gone once it was read: a
// server that crashes later must not go on from states of before.
#ifndef RECURVE_ENGINE_SERVE_SESSION_FILES_H_
#define RECURVE_ENGINE_SERVE_SESSION_FILES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/serve/model_version.h"
#include "engine/serve/session_snapshot.h"
#include "engine/serve/session_store.h"

namespace recurve {

struct SavedSession {
  std::string id;
  absl::Time create_time;
  SessionSnapshot snapshot;
};

std::string SerializeSavedSession(const SavedSession& session);

struct ParsedSessions {
  std::vector<SavedSession> sessions;
  // DataLoss, one for each stretch of bytes that is no record, saying where.
  std::vector<absl::Status> damaged;
};
// Of records one after another; a damaged one hinders no other.
ParsedSessions ParseSavedSessions(absl::string_view bytes);

struct SessionsOnDisk {
  int64_t sessions = 0;
  std::vector<absl::Status> lost;  // an error each
};

// Saves those that `store` has; nobody may use them meanwhile. One that cannot
// be read is lost. Errors are the disk's; nothing is there then.
absl::StatusOr<SessionsOnDisk> SaveSessions(SessionStore& store,
                                            const std::string& directory);

// Puts those of `directory`, if it is there, into `store`, each on the version
// that `find` gives for its name, and removes it. They begin to be idle now. An
// error if the folder could not be removed.
absl::StatusOr<SessionsOnDisk> RestoreSessions(
    const std::string& directory,
    const std::function<absl::StatusOr<ModelHandle>(const std::string&)>& find,
    SessionStore& store);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_SESSION_FILES_H_
