#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "engine/data/dataset.h"
#include "engine/data/vocabulary.h"
#include "kernels/status.h"
#include "proto/recurve/v1/compute.grpc.pb.h"
#include "server/call.h"
#include "server/convert.h"
#include "server/resource_name.h"
#include "server/services/services.h"

namespace recurve::server {
namespace {

using grpc::CallbackServerContext;

OutputSelection SelectionOf(const v1::PredictRequest& request) {
  OutputSelection selection;
  selection.probabilities = request.want_probabilities();
  selection.top_k = request.top_k();
  selection.classes = request.want_class();
  selection.hidden = request.want_hidden();
  selection.state = request.want_state();
  selection.logits =
      request.want_logits() ||
      !(selection.probabilities || selection.top_k != 0 || selection.classes ||
        selection.hidden || selection.state);
  return selection;
}

// --- The model that a request names ---

bool NamesTrainer(absl::string_view model) {
  return absl::StartsWith(model, "trainers/");
}

// At once; null for weights in training that FindModel has to fetch.
absl::StatusOr<ModelHandle> FindReadyModel(const Engine& engine,
                                           absl::string_view model) {
  if (!NamesTrainer(model)) return engine.versions->Enter(model);
  ASSIGN_OR_RETURN(const std::string id, ParseName(model, "trainers", "model"));
  return engine.trainers->ReadyWeights(id);
}

// May wait for a call of training.
absl::StatusOr<ModelHandle> FindModel(const Engine& engine,
                                      absl::string_view model,
                                      const CallControl& control) {
  if (!NamesTrainer(model)) return engine.versions->Enter(model);
  ASSIGN_OR_RETURN(const std::string id, ParseName(model, "trainers", "model"));
  return engine.trainers->Weights(id, control.deadline);
}

// --- Predict and Evaluate ---

absl::StatusOr<PredictRequest> FromWire(absl::StatusOr<ModelHandle> version,
                                        const v1::PredictRequest& wire,
                                        const CallControl& control) {
  PredictRequest request;
  ASSIGN_OR_RETURN(request.version, std::move(version));
  ASSIGN_OR_RETURN(request.batch, server::FromWire(wire.batch()));
  ASSIGN_OR_RETURN(request.state, FloatsFromBytes(wire.state(), "state"));
  request.selection = SelectionOf(wire);
  request.control = control;
  return request;
}

// The data that the request names, parsed for this model.
absl::StatusOr<Dataset> ReadSource(const Engine& engine,
                                   const ModelVersion& version,
                                   const v1::EvaluateRequest& request) {
  v1::DataFormat format = request.format();
  if (format.format_case() == v1::DataFormat::FORMAT_NOT_SET) {
    format.mutable_text();
  }
  std::optional<Vocabulary> vocabulary;
  if (!version.vocabulary.empty()) {
    ASSIGN_OR_RETURN(vocabulary, Vocabulary::Create(version.vocabulary));
  }
  return ReadDataset(*engine.datasets, request.source(), format,
                     vocabulary.has_value() ? &*vocabulary : nullptr);
}

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
    ASSIGN_OR_RETURN(const Dataset dataset,
                     ReadSource(engine, *version, request));
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

// Encoding a large reply takes longer than a device should wait.
constexpr size_t kInlineReplyFloats = 1 << 14;

size_t Floats(const Prediction& prediction) {
  return prediction.logits.size() + prediction.probabilities.size() +
         prediction.hidden.size() + prediction.state.size() +
         prediction.top_classes.size() + prediction.classes.size();
}

void Reply(Engine& engine, UnaryCall* call, v1::PredictResponse* response,
           absl::StatusOr<Prediction> prediction) {
  if (!prediction.ok()) return call->Reply(prediction.status());
  const bool large = Floats(*prediction) > kInlineReplyFloats;
  auto encode = [call, response,
                 prediction = *std::move(prediction)]() mutable {
    *response = ToWire(std::move(prediction));
    call->Reply(absl::OkStatus());
  };
  if (!large) return encode();
  engine.io.AddPiece(std::move(encode));
}

class InferenceService final : public v1::Inference::CallbackService {
 public:
  explicit InferenceService(Engine& engine) : engine_(engine) {}

  grpc::ServerUnaryReactor* Predict(CallbackServerContext* context,
                                    const v1::PredictRequest* request,
                                    v1::PredictResponse* response) override {
    return UnaryCall::Start(engine_.calls, *context, [&](UnaryCall* call) {
      Begin(call, request, response);
    });
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
  void Begin(UnaryCall* call, const v1::PredictRequest* request,
             v1::PredictResponse* response) {
    auto version = FindReadyModel(engine_, request->model());
    if (!version.ok() || *version != nullptr) {
      return Run(std::move(version), call, request, response);
    }
    const absl::Status accepted =
        engine_.work.TryAdd([this, call, request, response] {
          Run(FindModel(engine_, request->model(), call->control()), call,
              request, response);
        });
    if (!accepted.ok()) call->Reply(accepted);
  }

  void Run(absl::StatusOr<ModelHandle> version, UnaryCall* call,
           const v1::PredictRequest* request, v1::PredictResponse* response) {
    auto native = FromWire(std::move(version), *request, call->control());
    if (!native.ok()) return call->Reply(native.status());
    engine_.predictor.Predict(
        *std::move(native),
        [this, call, response](absl::StatusOr<Prediction> prediction) {
          Reply(engine_, call, response, std::move(prediction));
        });
  }

  Engine& engine_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewInferenceService(Engine& engine) {
  return std::make_unique<InferenceService>(engine);
}

}  // namespace recurve::server
