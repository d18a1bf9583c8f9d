#include "server/access/gated_call.h"

#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "server/access/scopes.h"

namespace recurve::server {

struct GatedCall::Method {
  std::string name;
  Gate* gate;
  CallCounts* counts;
};

namespace {

using Metadata = std::multimap<grpc::string_ref, grpc::string_ref>;

// A gRPC context has no place for what we know of a call but the client's
// metadata. The key's value is the bytes of a pointer's target.
constexpr char kKey[] = "recurve method";

// Whom the client's certificate names, if it had to show one.
std::string CertificateOf(const grpc::ServerContextBase& context) {
  const auto auth = context.auth_context();
  if (auth == nullptr || !auth->IsPeerAuthenticated()) return "";
  const auto names = auth->GetPeerIdentity();
  return names.empty() ? "" : std::string(names[0].begin(), names[0].end());
}

CallFacts FactsOf(const std::string& method,
                  const grpc::CallbackServerContext& context) {
  CallFacts caller;
  caller.method = method;
  const Metadata& metadata = context.client_metadata();
  const auto authorization = metadata.find("authorization");
  if (authorization != metadata.end()) {
    caller.authorization = absl::string_view(authorization->second.data(),
                                             authorization->second.size());
  }
  caller.certificate = CertificateOf(context);
  caller.peer = context.peer();
  return caller;
}

// A client that accepts compressed replies does not always want them: it says
// so with `reply-encoding: gzip`.
void CompressReplies(grpc::ServerContextBase& context) {
  const Metadata& metadata = context.client_metadata();
  const auto found = metadata.find("reply-encoding");
  if (found == metadata.end() || found->second != "gzip") return;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
}

}  // namespace

class GatedCall::MethodNames final
    : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  MethodNames(Gate& gate, CallCounts& counts) : gate_(gate), counts_(counts) {}

  // gRPC's own services, which are open, are left alone, and so is a method
  // without a scope: its calls come past the gate.
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* call) override {
    const absl::string_view name = call->method();
    if (absl::StartsWith(name, "/grpc.") || !ScopeOf(name).has_value()) {
      return nullptr;
    }
    auto& context = *call->server_context();
    auto& metadata = const_cast<Metadata&>(context.client_metadata());
    metadata.erase(kKey);  // should a client have sent it
    metadata.emplace(
        kKey, grpc::string_ref(reinterpret_cast<const char*>(&MethodOf(name)),
                               sizeof(Method)));
    CompressReplies(context);
    return nullptr;
  }

 private:
  const Method& MethodOf(absl::string_view name) {
    absl::MutexLock lock(&mutex_);
    std::unique_ptr<Method>& method = methods_[name];
    if (method == nullptr) {
      method =
          std::make_unique<Method>(Method{std::string(name), &gate_, &counts_});
    }
    return *method;
  }

  Gate& gate_;
  CallCounts& counts_;
  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::unique_ptr<Method>> methods_
      ABSL_GUARDED_BY(mutex_);
};

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>
NewMethodNames(Gate& gate, CallCounts& counts) {
  return std::make_unique<GatedCall::MethodNames>(gate, counts);
}

GatedCall::GatedCall(const grpc::CallbackServerContext& context)
    : method_([&]() -> const Method* {
        const auto found = context.client_metadata().find(kKey);
        if (found == context.client_metadata().end()) return nullptr;
        return reinterpret_cast<const Method*>(found->second.data());
      }()) {
  if (method_ == nullptr) {
    admission_.status = absl::PermissionDeniedError(
        "this method has no scope: nobody may call it");
    return;
  }
  admission_ =
      method_->gate->Enter(FactsOf(method_->name, context), absl::Now());
}

GatedCall::~GatedCall() {
  if (method_ != nullptr) method_->gate->Leave(admission_);
}

grpc::Status GatedCall::End(grpc::Status status) const {
  if (method_ != nullptr) {
    method_->counts->Add(method_->name, status.error_code());
  }
  return status;
}

}  // namespace recurve::server
