#include <memory>
#include <string>
#include <utility>

#include "engine/data/dataset.h"
#include "kernels/status.h"
#include "proto/recurve/v1/compute.grpc.pb.h"
#include "server/call.h"
#include "server/convert.h"
#include "server/services/generate.h"
#include "server/services/predict.h"
#include "server/services/predict_stream.h"
#include "server/services/read_source.h"
#include "server/services/services.h"

namespace recurve::server {
namespace {

using grpc::CallbackServerContext;

absl::StatusOr<Evaluation> EvaluateBatch(const Engine& engine,
                                         const ModelHandle& version,
                                         const v1::EvaluateRequest& request,
                                         const CallControl& control) {
  if (request.chunk_rows() != 0 || request.carry_state()) {
    return absl::InvalidArgumentError(
        "chunk_rows, carry_state: are for text; the sequences of a batch are "
        "evaluated whole");
  }
  ASSIGN_OR_RETURN(const SequenceBatch batch,
                   server::FromWire(request.batch()));
  ASSIGN_OR_RETURN(const Targets targets, server::FromWire(request.targets()));
  return engine.evaluator.EvaluateBatch(
      version, batch, request.has_targets() ? &targets : nullptr, control);
}

absl::Status Evaluate(const Engine& engine, const v1::EvaluateRequest& request,
                      const CallControl& control,
                      v1::EvaluateResponse* response) {
  ASSIGN_OR_RETURN(const ModelHandle version,
                   FindModel(engine, request.model(), control));
  absl::StatusOr<Evaluation> evaluation;
  if (request.has_batch()) {
    evaluation = EvaluateBatch(engine, version, request, control);
  } else if (request.has_source()) {
    ASSIGN_OR_RETURN(
        const Dataset dataset,
        ReadSource(engine, *version, request.source(), request.format()));
    const TextOptions options{request.chunk_rows(), request.carry_state()};
    evaluation =
        engine.evaluator.EvaluateDataset(version, dataset, options, control);
  } else {
    evaluation =
        absl::InvalidArgumentError("data: a source or a batch is needed");
  }
  RETURN_IF_ERROR(evaluation.status());
  *response = ToWire(*version, *evaluation);
  return absl::OkStatus();
}

class InferenceService final : public v1::Inference::CallbackService {
 public:
  explicit InferenceService(Engine& engine) : engine_(engine) {}

  grpc::ServerUnaryReactor* Predict(CallbackServerContext* context,
                                    const v1::PredictRequest* request,
                                    v1::PredictResponse* response) override {
    return UnaryCall::Start(engine_.calls, *context, [&](UnaryCall* call) {
      server::Predict(
          engine_, *request, {call->control(), call->client()}, response,
          [call](const absl::Status& status) { call->Reply(status); });
    });
  }

  grpc::ServerBidiReactor<v1::PredictRequest, v1::PredictStreamResponse>*
  PredictStream(CallbackServerContext* context) override {
    return StartPredictStream(engine_, *context);
  }

  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      CallbackServerContext* context,
      const v1::GenerateRequest* request) override {
    return server::Generate(engine_, *context, *request);
  }

  grpc::ServerUnaryReactor* Evaluate(CallbackServerContext* context,
                                     const v1::EvaluateRequest* request,
                                     v1::EvaluateResponse* response) override {
    return ReplyByWork(engine_.calls, engine_.work, context,
                       [this, request, response](const CallControl& control) {
                         return server::Evaluate(engine_, *request, control,
                                                 response);
                       });
  }

 private:
  Engine& engine_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewInferenceService(Engine& engine) {
  return std::make_unique<InferenceService>(engine);
}

}  // namespace recurve::server
