#include "server/access/client_calls.h"

#include "absl/strings/str_cat.h"
#include "engine/serve/retry_hint.h"

namespace recurve::server {
namespace {

// One of its own calls must end first, and the client knows best when. This
// only keeps it from asking in a loop.
constexpr absl::Duration kRetryDelay = absl::Milliseconds(100);

}  // namespace

absl::Status ClientCalls::Begin(const std::string& client) {
  absl::MutexLock lock(&mutex_);
  int& calls = calls_[client];
  if (calls >= max_calls_) {
    absl::Status status = absl::ResourceExhaustedError(
        absl::StrCat(client, " has ", calls, " calls under way, the limit is ",
                     max_calls_, " (--max_calls_per_client)"));
    SetRetryHint(status, kRetryDelay);
    return status;
  }
  ++calls;
  return absl::OkStatus();
}

void ClientCalls::End(absl::string_view client) {
  absl::MutexLock lock(&mutex_);
  const auto found = calls_.find(client);
  if (--found->second == 0) calls_.erase(found);
}

int ClientCalls::clients() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(calls_.size());
}

}  // namespace recurve::server
