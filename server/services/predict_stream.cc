#include "server/services/predict_stream.h"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "server/bidi_call.h"
#include "server/services/predict.h"
#include "server/status.h"

namespace recurve::server {
namespace {

// Enough that a client far away keeps a device busy.
constexpr size_t kMaxUnanswered = 64;

// What the RPC would end with.
google::rpc::Status ToWire(const absl::Status& status) {
  const grpc::Status rpc = ToGrpc(status);
  google::rpc::Status wire;
  if (!rpc.error_details().empty() &&
      wire.ParseFromString(rpc.error_details())) {
    return wire;
  }
  wire.set_code(rpc.error_code());
  wire.set_message(rpc.error_message());
  return wire;
}

class PredictStream final
    : public BidiCall<v1::PredictRequest, v1::PredictStreamResponse> {
 public:
  PredictStream(Engine& engine, const grpc::CallbackServerContext& context)
      : BidiCall(engine.calls, kMaxUnanswered, context,
                 engine.config.max_message_bytes()),
        engine_(engine) {}

 private:
  void Handle(v1::PredictRequest& request, v1::PredictStreamResponse& response,
              Answered answered) override {
    FillIn(request);
    Predict(
        engine_, request, {control(), client()}, response.mutable_response(),
        [this, &response,
         answered = std::move(answered)](const absl::Status& status) {
          if (!status.ok()) {
            response.clear_response();
            *response.mutable_status() = ToWire(engine_.calls.Outcome(status));
          }
          answered(absl::OkStatus());
        });
  }

  // What it leaves out, from the one before. A session that goes on needs no
  // model: it has its own.
  void FillIn(v1::PredictRequest& request) {
    if (request.has_session()) {
      std::string& name = *request.mutable_session()->mutable_name();
      name.empty() ? name = session_ : session_ = name;
    }
    const bool goes_on = request.has_session() && !request.session().start();
    if (!request.model().empty()) {
      model_ = request.model();
    } else if (!goes_on) {
      request.set_model(model_);
    }
  }

  Engine& engine_;
  std::string model_;
  std::string session_;
};

}  // namespace

grpc::ServerBidiReactor<v1::PredictRequest, v1::PredictStreamResponse>*
StartPredictStream(Engine& engine, const grpc::CallbackServerContext& context) {
  auto call = std::make_shared<PredictStream>(engine, context);
  call->EndOn(engine.draining, engine.io);
  return PredictStream::Start(std::move(call));
}

}  // namespace recurve::server
