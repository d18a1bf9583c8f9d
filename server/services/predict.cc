#include "server/services/predict.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/serve/predictor.h"
#include "engine/serve/session_predictor.h"
#include "kernels/status.h"
#include "server/convert.h"
#include "server/resource_name.h"
#include "server/session_name.h"

namespace recurve::server {
namespace {

using Done = std::function<void(absl::Status)>;

bool NamesTrainer(absl::string_view model) {
  return absl::StartsWith(model, "trainers/");
}

absl::Status RefuseTrainer(absl::string_view model) {
  return absl::FailedPreconditionError(
      absl::StrCat("model: ", model,
                   " changes with its training; a session is on a version of "
                   "a model"));
}

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

// All but the version.
absl::StatusOr<PredictRequest> FromWire(const Engine& engine,
                                        const v1::PredictRequest& wire,
                                        const Caller& caller) {
  PredictRequest request;
  ASSIGN_OR_RETURN(request.batch, server::FromWire(wire.batch()));
  ASSIGN_OR_RETURN(request.state, FloatsFromBytes(wire.state(), "state"));
  ASSIGN_OR_RETURN(request.priority, PriorityOf(engine, wire.priority()));
  request.selection = SelectionOf(wire);
  request.control = caller.control;
  request.flow = caller.flow;
  return request;
}

// --- Replies ---

// Encoding a large reply takes longer than a device should wait.
constexpr size_t kInlineReplyFloats = 1 << 14;

size_t Floats(const Prediction& prediction) {
  return prediction.logits.size() + prediction.probabilities.size() +
         prediction.hidden.size() + prediction.state.size() +
         prediction.top_classes.size() + prediction.classes.size();
}

void Reply(Engine& engine, Prediction prediction, int64_t position,
           v1::PredictResponse* response, Done done) {
  const bool large = Floats(prediction) > kInlineReplyFloats;
  auto encode = [prediction = std::move(prediction), position, response,
                 done = std::move(done)]() mutable {
    *response = ToWire(std::move(prediction));
    response->set_position(position);
    done(absl::OkStatus());
  };
  if (!large) return encode();
  engine.io.AddPiece(std::move(encode));
}

// --- Without a session ---

void PredictOn(Engine& engine, absl::StatusOr<ModelHandle> version,
               const v1::PredictRequest& wire, const Caller& caller,
               v1::PredictResponse* response, Done done) {
  if (!version.ok()) return done(version.status());
  auto request = FromWire(engine, wire, caller);
  if (!request.ok()) return done(request.status());
  request->version = *std::move(version);
  engine.predictor.Predict(
      *std::move(request), [&engine, response, done = std::move(done)](
                               absl::StatusOr<Prediction> prediction) {
        if (!prediction.ok()) return done(prediction.status());
        Reply(engine, *std::move(prediction), 0, response, done);
      });
}

void PredictAlone(Engine& engine, const v1::PredictRequest& request,
                  const Caller& caller, v1::PredictResponse* response,
                  Done done) {
  auto version = FindReadyModel(engine, request.model());
  if (!version.ok() || *version != nullptr) {
    return PredictOn(engine, std::move(version), request, caller, response,
                     std::move(done));
  }
  const absl::Status accepted =
      engine.work.TryAdd([&engine, &request, caller, response, done] {
        PredictOn(engine, FindModel(engine, request.model(), caller.control),
                  request, caller, response, done);
      });
  if (!accepted.ok()) done(accepted);
}

// --- With a session ---

absl::StatusOr<SessionPredictRequest> SessionRequest(
    const Engine& engine, const v1::PredictRequest& wire,
    const Caller& caller) {
  SessionPredictRequest request;
  ASSIGN_OR_RETURN(request.use, UseOf(engine, wire.session(), wire.model()));
  ASSIGN_OR_RETURN(request.predict, FromWire(engine, wire, caller));
  if (!request.use.start) {
    request.check_version = [model =
                                 wire.model()](const ModelVersion& version) {
      return CheckGoesOn(model, version);
    };
  }
  return request;
}

void PredictOnSession(Engine& engine, const v1::PredictRequest& wire,
                      const Caller& caller, v1::PredictResponse* response,
                      Done done) {
  auto request = SessionRequest(engine, wire, caller);
  if (!request.ok()) return done(request.status());
  engine.session_predictor.Predict(
      *std::move(request), [&engine, response, done = std::move(done)](
                               absl::StatusOr<SessionPrediction> result) {
        if (!result.ok()) return done(result.status());
        Reply(engine, std::move(result->prediction), result->position, response,
              done);
      });
}

}  // namespace

absl::StatusOr<ModelHandle> FindReadyModel(const Engine& engine,
                                           absl::string_view model) {
  if (!NamesTrainer(model)) return engine.versions->Enter(model);
  ASSIGN_OR_RETURN(const std::string id, ParseName(model, "trainers", "model"));
  return engine.trainers->ReadyWeights(id);
}

absl::StatusOr<ModelHandle> FindModel(const Engine& engine,
                                      absl::string_view model,
                                      const CallControl& control) {
  if (!NamesTrainer(model)) return engine.versions->Enter(model);
  ASSIGN_OR_RETURN(const std::string id, ParseName(model, "trainers", "model"));
  return engine.trainers->Weights(id, control.deadline);
}

absl::StatusOr<int> PriorityOf(const Engine& engine, int64_t priority) {
  const int levels = engine.config.priority_levels();
  if (priority == 0) return engine.config.default_priority();
  if (priority >= 1 && priority <= levels) return priority;
  return absl::InvalidArgumentError(
      absl::StrCat("priority: is ", priority, ", must be 0 to ", levels));
}

absl::Status CheckGoesOn(const std::string& model,
                         const ModelVersion& version) {
  if (model.empty()) return absl::OkStatus();
  const std::string of_model = absl::StrCat("models/", version.model_id);
  const bool same = model == of_model || model == version.name ||
                    absl::StartsWith(model, of_model + "/aliases/");
  if (same) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("model: is ", model, ", the session is on ", version.name));
}

absl::StatusOr<SessionUse> UseOf(const Engine& engine,
                                 const v1::SessionUse& session,
                                 const std::string& model) {
  SessionUse use;
  ASSIGN_OR_RETURN(use.id, session.start()
                               ? NewSessionId(session.name(), "session.name")
                               : SessionId(session.name(), "session.name"));
  use.start = session.start();
  use.end = session.end();
  if (session.has_position()) use.position = session.position();
  if (NamesTrainer(model)) return RefuseTrainer(model);
  if (use.start) {
    ASSIGN_OR_RETURN(use.version, FindReadyModel(engine, model));
  }
  return use;
}

void Predict(Engine& engine, const v1::PredictRequest& request,
             const Caller& caller, v1::PredictResponse* response, Done done) {
  (request.has_session() ? PredictOnSession : PredictAlone)(
      engine, request, caller, response, std::move(done));
}

}  // namespace recurve::server
