// Shows calls to the gate.
#ifndef RECURVE_SERVER_ACCESS_GATED_CALL_H_
#define RECURVE_SERVER_ACCESS_GATED_CALL_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_interceptor.h"
#include "grpcpp/support/status.h"
#include "server/access/admission.h"
#include "server/access/call_counts.h"
#include "server/access/gate.h"

namespace recurve::server {

// A call's way by the gate: in with the constructor, out with the destructor.
// The classes of server/call.h, stream_call.h, upload_call.h and bidi_call.h
// have one, and do nothing for a call that is refused; whoever handles a call
// without them must have one too.
class GatedCall {
 public:
  // PermissionDenied where the server has no NewMethodNames.
  explicit GatedCall(const grpc::CallbackServerContext& context);
  GatedCall(const GatedCall&) = delete;
  GatedCall& operator=(const GatedCall&) = delete;
  ~GatedCall();

  const absl::Status& status() const { return admission_.status; }
  const std::string& client() const { return admission_.client; }
  // Counts how the call ends, and gives that back. Once.
  grpc::Status End(grpc::Status status) const;

 private:
  struct Method;
  class MethodNames;
  friend std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
  NewMethodNames(Gate& gate, CallCounts& counts);

  const Method* const method_;  // null past the gate
  Admission admission_;
};

// For ServerBuilder::experimental(): tells calls which method they are of and
// which gate is theirs, what a context does not say. It intercepts nothing: an
// interceptor would cost each call a hand-over between threads. `gate` and
// `counts` outlive the server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
NewMethodNames(Gate& gate, CallCounts& counts);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_ACCESS_GATED_CALL_H_
