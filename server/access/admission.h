// What the gate found of a call, for those who handle it.
#ifndef RECURVE_SERVER_ACCESS_ADMISSION_H_
#define RECURVE_SERVER_ACCESS_ADMISSION_H_

#include <string>

#include "absl/status/status.h"
#include "grpcpp/server_context.h"

namespace recurve::server {

struct Admission {
  // OK, or why nothing may be done for the call. The classes of server/call.h,
  // stream_call.h, upload_call.h and bidi_call.h look at it; whoever handles a
  // call without them must.
  absl::Status status;
  // Whose it is: "token:NAME", "certificate:NAME" or an address. Limits, and
  // the shares that clients have of a device, are by client.
  std::string client;
  bool counted = false;  // against its limit
};

// Refused for a call that did not come by way of a gate.
const Admission& AdmissionOf(const grpc::ServerContextBase& context);

// Makes AdmissionOf find `admission`, which must live as long as the call.
// Once.
void SetAdmission(const Admission& admission,
                  std::multimap<grpc::string_ref, grpc::string_ref>& metadata);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_ACCESS_ADMISSION_H_
