#include "engine/serve/session_files.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/append_file.h"
#include "engine/base/directory.h"
#include "engine/base/file.h"
#include "engine/serve/sealed_bytes.h"
#include "engine/serve/session_operations.h"
#include "kernels/status.h"

namespace recurve {
namespace {

constexpr absl::string_view kMagic = "rcv-live";
constexpr absl::string_view kSuffix = ".sessions";
// A file is read whole.
constexpr size_t kFileBytes = 64 << 20;
// Read from their devices at once.
constexpr int64_t kPageSessions = 256;
// For a session that somebody still uses, which nobody should.
constexpr absl::Duration kPatience = absl::Seconds(10);

// After the magic.
struct Header {
  uint64_t record_bytes = 0;  // magic and seal included
  int64_t create_time_ns = 0;
  uint64_t id_bytes = 0;
};
constexpr size_t kFixedBytes = kMagic.size() + sizeof(Header) + kSealBytes;

absl::Status In(const std::string& place, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat(place, ": ", status.message()));
}

// --- Records ---

// Of the record that `bytes` begins with; 0 if it begins with none.
size_t RecordBytes(absl::string_view bytes) {
  if (!absl::StartsWith(bytes, kMagic) || bytes.size() < kFixedBytes) return 0;
  bytes.remove_prefix(kMagic.size());
  const uint64_t size = Take<Header>(bytes).record_bytes;
  const uint64_t most = bytes.size() + kMagic.size() + sizeof(Header);
  return size < kFixedBytes || size > most ? 0 : size;
}

absl::StatusOr<SavedSession> ParseRecord(absl::string_view record) {
  const auto unsealed = Unseal(record);
  if (!unsealed) {
    return absl::DataLossError("the record differs from its checksum");
  }
  absl::string_view bytes = *unsealed;
  TakeBytes(bytes, kMagic.size());
  const auto header = Take<Header>(bytes);
  if (header.id_bytes > std::min(bytes.size(), kMaxSessionIdBytes)) {
    return absl::DataLossError("the record is not as long as it says");
  }
  SavedSession session;
  session.create_time = absl::FromUnixNanos(header.create_time_ns);
  session.id = std::string(TakeBytes(bytes, header.id_bytes));
  ASSIGN_OR_RETURN(session.snapshot, ParseSnapshot(bytes));
  return session;
}

// --- Writing ---

// Records in files of about kFileBytes.
class SessionWriter {
 public:
  explicit SessionWriter(std::string directory)
      : directory_(std::move(directory)) {}

  absl::Status Add(const SavedSession& session) {
    pending_ += SerializeSavedSession(session);
    return pending_.size() < kFileBytes ? absl::OkStatus() : Flush();
  }

  absl::Status Flush() {
    if (pending_.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(AppendFile file, AppendFile::Create(absl::StrCat(
                                          directory_, "/", ++files_, kSuffix)));
    RETURN_IF_ERROR(file.Append(pending_));
    RETURN_IF_ERROR(file.Finish());
    pending_.clear();
    return absl::OkStatus();
  }

 private:
  const std::string directory_;
  int files_ = 0;
  std::string pending_;
};

// The sessions of a page as they come from their devices.
class Page {
 public:
  Page(SessionStore& store, const std::vector<SessionInfo>& infos)
      : waiting_(static_cast<int64_t>(infos.size())) {
    CallControl control;
    control.deadline = absl::Now() + kPatience;
    for (const SessionInfo& info : infos) {
      SnapshotSession(store, info.id, control,
                      [this, info](absl::StatusOr<SessionSnapshot> snapshot) {
                        Take(info, std::move(snapshot));
                      });
    }
    absl::MutexLock lock(&mutex_);
    const auto complete = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return waiting_ == 0;
    };
    mutex_.Await(absl::Condition(&complete));
  }

  std::vector<SavedSession> sessions;
  std::vector<absl::Status> lost;

 private:
  void Take(const SessionInfo& info, absl::StatusOr<SessionSnapshot> snapshot) {
    absl::MutexLock lock(&mutex_);
    --waiting_;
    if (snapshot.ok()) {
      sessions.push_back({info.id, info.create_time, *std::move(snapshot)});
    } else {
      lost.push_back(In(absl::StrCat("sessions/", info.id), snapshot.status()));
    }
  }

  absl::Mutex mutex_;
  int64_t waiting_ ABSL_GUARDED_BY(mutex_);
};

absl::Status SaveTo(const std::string& directory, SessionStore& store,
                    SessionsOnDisk& saved) {
  SessionWriter writer(directory);
  std::string after;
  while (true) {
    const auto infos = store.List(after, kPageSessions,
                                  [](const ModelVersion&) { return true; });
    if (infos.empty()) return writer.Flush();
    after = infos.back().id;
    const Page page(store, infos);
    for (const SavedSession& session : page.sessions) {
      RETURN_IF_ERROR(writer.Add(session));
    }
    saved.sessions += static_cast<int64_t>(page.sessions.size());
    saved.lost.insert(saved.lost.end(), page.lost.begin(), page.lost.end());
  }
}

// --- Reading ---

void RestoreFile(
    const std::string& path,
    const std::function<absl::StatusOr<ModelHandle>(const std::string&)>& find,
    SessionStore& store, SessionsOnDisk& restored) {
  const auto bytes = ReadFile(path, std::numeric_limits<int64_t>::max());
  if (!bytes.ok()) return restored.lost.push_back(bytes.status());
  ParsedSessions parsed = ParseSavedSessions(*bytes);
  for (const absl::Status& damaged : parsed.damaged) {
    restored.lost.push_back(In(path, damaged));
  }
  for (SavedSession& session : parsed.sessions) {
    const std::string id = session.id;
    const auto version = find(session.snapshot.model_version);
    const absl::Status status =
        version.ok()
            ? RestoreSession(store, id, *version, std::move(session.snapshot),
                             session.create_time)
                  .status()
            : version.status();
    if (status.ok()) {
      ++restored.sessions;
    } else {
      restored.lost.push_back(In(absl::StrCat("sessions/", id), status));
    }
  }
}

absl::Status Discard(const std::string& directory) {
  ASSIGN_OR_RETURN(const std::string aside, MoveAside(directory));
  RemoveTree(aside).IgnoreError();  // at the next start, then
  return absl::OkStatus();
}

}  // namespace

std::string SerializeSavedSession(const SavedSession& session) {
  const std::string snapshot = SerializeSnapshot(session.snapshot);
  Header header;
  header.record_bytes = kFixedBytes + session.id.size() + snapshot.size();
  header.create_time_ns = absl::ToUnixNanos(session.create_time);
  header.id_bytes = session.id.size();
  return Seal(absl::StrCat(kMagic, BytesOf(header), session.id, snapshot));
}

ParsedSessions ParseSavedSessions(absl::string_view bytes) {
  ParsedSessions parsed;
  std::optional<size_t> damaged_from;
  size_t at = 0;
  const auto end_damage = [&] {
    if (!damaged_from) return;
    parsed.damaged.push_back(absl::DataLossError(
        absl::StrCat("bytes ", *damaged_from, " to ", at,
                     " are damaged, and with them one session or more")));
    damaged_from.reset();
  };
  while (at < bytes.size()) {
    const absl::string_view rest = bytes.substr(at);
    const size_t size = RecordBytes(rest);
    auto session = ParseRecord(rest.substr(0, size));
    if (session.ok()) {
      end_damage();
      parsed.sessions.push_back(*std::move(session));
      at += size;
    } else {
      if (!damaged_from) damaged_from = at;
      at = std::min(bytes.find(kMagic, at + 1), bytes.size());
    }
  }
  end_damage();
  return parsed;
}

absl::StatusOr<SessionsOnDisk> SaveSessions(SessionStore& store,
                                            const std::string& directory) {
  SessionsOnDisk saved;
  ASSIGN_OR_RETURN(AsideDirectory aside, AsideDirectory::Create(directory));
  RETURN_IF_ERROR(SaveTo(aside.path(), store, saved));
  if (saved.sessions == 0) return saved;
  RETURN_IF_ERROR(aside.Publish());
  return saved;
}

absl::StatusOr<SessionsOnDisk> RestoreSessions(
    const std::string& directory,
    const std::function<absl::StatusOr<ModelHandle>(const std::string&)>& find,
    SessionStore& store) {
  SweepAside(DirectoryOf(directory));
  SessionsOnDisk restored;
  const auto names = ListDirectory(directory);
  if (absl::IsNotFound(names.status())) return restored;
  RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    if (!absl::EndsWith(name, kSuffix)) continue;
    RestoreFile(absl::StrCat(directory, "/", name), find, store, restored);
  }
  RETURN_IF_ERROR(Discard(directory));
  return restored;
}

}  // namespace recurve
