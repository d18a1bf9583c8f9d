#include "server/access/gate_interceptor.h"

#include <map>
#include <string>

#include "absl/time/clock.h"

namespace recurve::server {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::ServerRpcInfo;
using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;

// Whom the client's certificate names, if it had to show one.
std::string CertificateOf(const grpc::ServerContextBase& context) {
  const auto auth = context.auth_context();
  if (auth == nullptr || !auth->IsPeerAuthenticated()) return "";
  const auto names = auth->GetPeerIdentity();
  return names.empty() ? "" : std::string(names[0].begin(), names[0].end());
}

Caller CallerOf(ServerRpcInfo& call, const Metadata& metadata) {
  Caller caller;
  caller.method = call.method();
  const auto authorization = metadata.find("authorization");
  if (authorization != metadata.end()) {
    caller.authorization = absl::string_view(authorization->second.data(),
                                             authorization->second.size());
  }
  caller.certificate = CertificateOf(*call.server_context());
  caller.peer = call.server_context()->peer();
  return caller;
}

// A client that accepts compressed replies does not always want them: it says
// so with `reply-encoding: gzip`.
void CompressReplies(const Metadata& metadata,
                     grpc::ServerContextBase& context) {
  const auto found = metadata.find("reply-encoding");
  if (found == metadata.end() || found->second != "gzip") return;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
}

// Of one call, as long as its context lives.
class GateInterceptor : public grpc::experimental::Interceptor {
 public:
  GateInterceptor(Gate& gate, CallCounts& counts, ServerRpcInfo* call)
      : gate_(gate), counts_(counts), call_(*call) {}
  ~GateInterceptor() override { gate_.Leave(admission_); }

  void Intercept(
      grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(
            InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      Metadata& metadata = *methods->GetRecvInitialMetadata();
      admission_ = gate_.Enter(CallerOf(call_, metadata), absl::Now());
      SetAdmission(admission_, metadata);
      CompressReplies(metadata, *call_.server_context());
    }
    if (methods->QueryInterceptionHookPoint(
            InterceptionHookPoints::PRE_SEND_STATUS)) {
      counts_.Add(call_.method(), methods->GetSendStatus().error_code());
    }
    methods->Proceed();
  }

 private:
  Gate& gate_;
  CallCounts& counts_;
  ServerRpcInfo& call_;
  Admission admission_;
};

class Factory : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  Factory(Gate& gate, CallCounts& counts) : gate_(gate), counts_(counts) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(
      ServerRpcInfo* call) override {
    return new GateInterceptor(gate_, counts_, call);
  }

 private:
  Gate& gate_;
  CallCounts& counts_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
NewGateInterceptors(Gate& gate, CallCounts& counts) {
  return std::make_unique<Factory>(gate, counts);
}

}  // namespace recurve::server
