// Decides of every call, before anything is done for it, whether it may go on.
#ifndef RECURVE_SERVER_ACCESS_GATE_H_
#define RECURVE_SERVER_ACCESS_GATE_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/access/admission.h"
#include "server/access/client_calls.h"
#include "server/access/token_file.h"

namespace recurve::server {

// What the gate is shown of a call.
struct CallFacts {
  absl::string_view method;  // "/package.Service/Method"
  // Of its metadata `authorization`, if it is there.
  std::optional<absl::string_view> authorization;
  // Whom its certificate names, empty without one; where it comes from, as gRPC
  // writes it: "ipv4:192.0.2.7:61234".
  std::string certificate;
  std::string peer;
};

// Thread-safe.
class Gate {
 public:
  // Without `tokens` everybody may do everything.
  Gate(std::unique_ptr<TokenFile> tokens, int max_calls_per_client)
      : tokens_(std::move(tokens)), calls_(max_calls_per_client) {}

  // OK; Unavailable after Close; PermissionDenied for a method without a scope,
  // or whose scope the token lacks; Unauthenticated without a valid token;
  // ResourceExhausted beyond the client's limit. Methods of the scope kOpen
  // need no token and are let in after Close, too. Leave must follow.
  Admission Enter(const CallFacts& caller, absl::Time now);
  void Leave(const Admission& admission);

  // No new calls from now on.
  void Close() { closed_ = true; }

 private:
  absl::Status Authorize(const CallFacts& caller, absl::Time now,
                         std::string& client) const;

  const std::unique_ptr<TokenFile> tokens_;  // may be null
  ClientCalls calls_;
  std::atomic<bool> closed_ = false;
};

}  // namespace recurve::server

#endif  // RECURVE_SERVER_ACCESS_GATE_H_
