#include "server/access/gate.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/status.h"
#include "server/access/scopes.h"

namespace recurve::server {
namespace {

// "ipv4:192.0.2.7:61234" -> "ipv4:192.0.2.7": one client, whatever the
// connection.
std::string AddressOf(absl::string_view peer) {
  return std::string(
      absl::StartsWith(peer, "ip") ? peer.substr(0, peer.rfind(':')) : peer);
}

// "Bearer abc" -> "abc"; the word in any case, as RFC 9110 has it.
absl::StatusOr<absl::string_view> BearerOf(
    const std::optional<absl::string_view>& authorization) {
  constexpr absl::string_view kBearer = "bearer ";
  if (!authorization.has_value()) {
    return absl::UnauthenticatedError(
        "this server asks for a token: send the metadata `authorization: "
        "Bearer "
        "TOKEN` (recurve --token_file or RECURVE_TOKEN)");
  }
  if (!absl::StartsWithIgnoreCase(*authorization, kBearer)) {
    return absl::UnauthenticatedError(
        "the metadata `authorization` is not `Bearer TOKEN`");
  }
  return absl::StripAsciiWhitespace(authorization->substr(kBearer.size()));
}

}  // namespace

Admission Gate::Enter(const CallFacts& caller, absl::Time now) {
  Admission admission;
  admission.client = caller.certificate.empty()
                         ? AddressOf(caller.peer)
                         : absl::StrCat("certificate:", caller.certificate);
  admission.status = Authorize(caller, now, admission.client);
  if (!admission.status.ok()) return admission;
  admission.status = calls_.Begin(admission.client);
  admission.counted = admission.status.ok();
  return admission;
}

void Gate::Leave(const Admission& admission) {
  if (admission.counted) calls_.End(admission.client);
}

absl::Status Gate::Authorize(const CallFacts& caller, absl::Time now,
                             std::string& client) const {
  const std::optional<Scope> scope = ScopeOf(caller.method);
  if (!scope.has_value()) {
    return absl::PermissionDeniedError(
        absl::StrCat(caller.method, " has no scope: nobody may call it"));
  }
  if (*scope == Scope::kOpen) return absl::OkStatus();
  if (closed_) {
    return absl::UnavailableError(
        "the server is shutting down and takes no new calls");
  }
  if (tokens_ == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const absl::string_view presented,
                   BearerOf(caller.authorization));
  const std::shared_ptr<const Tokens> tokens = tokens_->Get(now);
  const Token* const token = tokens->Find(presented);
  if (token == nullptr) {
    return absl::UnauthenticatedError("the token is not one of this server's");
  }
  client = absl::StrCat("token:", token->name);
  if (token->scopes.Has(*scope)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      caller.method, " needs the scope ", ScopeName(*scope), "; the token ",
      token->name, " has ", token->scopes.ToString()));
}

}  // namespace recurve::server
