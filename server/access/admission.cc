#include "server/access/admission.h"

#include <map>

namespace recurve::server {
namespace {

// A gRPC context has no place for what an interceptor finds but the client's
// metadata. The key's value is the bytes of a pointer's target.
constexpr char kKey[] = "recurve admission";

}  // namespace

const Admission& AdmissionOf(const grpc::ServerContextBase& context) {
  static const auto& none = *new Admission{
      absl::PermissionDeniedError("the call came past the gate"), "", false};
  const auto found = context.client_metadata().find(kKey);
  if (found == context.client_metadata().end()) return none;
  return *reinterpret_cast<const Admission*>(found->second.data());
}

void SetAdmission(const Admission& admission,
                  std::multimap<grpc::string_ref, grpc::string_ref>& metadata) {
  metadata.erase(kKey);  // should a client have sent it
  metadata.emplace(kKey,
                   grpc::string_ref(reinterpret_cast<const char*>(&admission),
                                    sizeof(admission)));
}

}  // namespace recurve::server
