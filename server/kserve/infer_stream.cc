#include "server/kserve/infer_stream.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/bidi_call.h"
#include "server/kserve/infer.h"
#include "server/status.h"

namespace recurve::server::kserve {
namespace {

using inference::ModelInferRequest;
using inference::ModelStreamInferResponse;

// Requests of one stream that are under way or not written yet; together, with
// their responses, about as large as one message may be.
constexpr size_t kMaxUnanswered = 64;

bool WantsGrpcErrors(const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find("triton_grpc_error");
  return found != metadata.end() && found->second == "true";
}

bool WantsFinalResponses(const ModelInferRequest& request) {
  const auto found =
      request.parameters().find("triton_enable_empty_final_response");
  return found != request.parameters().end() && found->second.bool_param();
}

class InferStream final
    : public BidiCall<ModelInferRequest, ModelStreamInferResponse> {
 public:
  InferStream(Engine& engine, const SharedMemoryRegions& regions,
              const grpc::CallbackServerContext& context)
      : BidiCall(engine.calls, kMaxUnanswered, context,
                 engine.config.max_message_bytes()),
        engine_(engine),
        regions_(regions),
        grpc_errors_(WantsGrpcErrors(context)) {}

 private:
  void Handle(ModelInferRequest& request, ModelStreamInferResponse& response,
              Answered answered) override {
    auto& reply = *response.mutable_infer_response();
    if (WantsFinalResponses(request)) {
      // Each request has one response, so that is its last.
      (*reply.mutable_parameters())["triton_final_response"].set_bool_param(
          true);
    }
    const bool grpc_errors = grpc_errors_;
    Infer(engine_, regions_, request, {control(), client()}, reply,
          [&response, grpc_errors,
           answered = std::move(answered)](absl::Status status) {
            if (status.ok() || grpc_errors) return answered(std::move(status));
            response.set_error_message(ToGrpc(status).error_message());
            answered(absl::OkStatus());
          });
  }

  Engine& engine_;
  const SharedMemoryRegions& regions_;
  const bool grpc_errors_;
};

}  // namespace

grpc::ServerBidiReactor<ModelInferRequest, ModelStreamInferResponse>*
StartInferStream(Engine& engine, const SharedMemoryRegions& regions,
                 const grpc::CallbackServerContext& context) {
  auto stream = std::make_shared<InferStream>(engine, regions, context);
  stream->EndOn(engine.draining, engine.io);
  return InferStream::Start(std::move(stream));
}

}  // namespace recurve::server::kserve
