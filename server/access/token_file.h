// The tokens of a file that may change while the server runs.
#ifndef RECURVE_SERVER_ACCESS_TOKEN_FILE_H_
#define RECURVE_SERVER_ACCESS_TOKEN_FILE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/access/tokens.h"
#include "server/access/watched_files.h"

namespace recurve::server {

// Thread-safe.
class TokenFile {
 public:
  // A change of the file is seen this long after it at the latest.
  static constexpr absl::Duration kPeriod = absl::Seconds(1);

  // InvalidArgument, with the path, for a file that cannot be read or has a
  // wrong line. `warn` is told, later on, of new contents that are no good.
  static absl::StatusOr<std::unique_ptr<TokenFile>> Open(
      const std::string& path, absl::Time now,
      std::function<void(const absl::Status&)> warn);

  // The file's tokens, or those that it had before it was broken.
  std::shared_ptr<const Tokens> Get(absl::Time now);

 private:
  TokenFile(const std::string& path, absl::Time now,
            std::function<void(const absl::Status&)> warn);
  absl::StatusOr<std::shared_ptr<const Tokens>> Read() const;

  const std::string path_;
  const std::function<void(const absl::Status&)> warn_;
  absl::Mutex mutex_;
  absl::Time looked_ ABSL_GUARDED_BY(mutex_);
  WatchedFiles file_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const Tokens> tokens_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace recurve::server

#endif  // RECURVE_SERVER_ACCESS_TOKEN_FILE_H_
