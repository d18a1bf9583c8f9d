// Requests for predictions, however they come: alone or in a stream.
#ifndef RECURVE_SERVER_SERVICES_PREDICT_H_
#define RECURVE_SERVER_SERVICES_PREDICT_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/serve/call_control.h"
#include "engine/serve/model_version.h"
#include "engine/serve/session_store.h"
#include "proto/recurve/v1/compute.pb.h"
#include "server/engine.h"

namespace recurve::server {

// At once; null for weights in training that FindModel has to fetch.
absl::StatusOr<ModelHandle> FindReadyModel(const Engine& engine,
                                           absl::string_view model);
// May wait for a call of training.
absl::StatusOr<ModelHandle> FindModel(const Engine& engine,
                                      absl::string_view model,
                                      const CallControl& control);

// 1 to priority_levels; 0 means the default one. InvalidArgument for others.
absl::StatusOr<int> PriorityOf(const Engine& engine, int64_t priority);

// A request's part of a session, where `model` is asked for; all but control,
// input_hash and bytes.
absl::StatusOr<SessionUse> UseOf(const Engine& engine,
                                 const v1::SessionUse& session,
                                 const std::string& model);
// Whether a session on `version` goes on where `model` is asked for: a model's
// or an alias's name may mean another version of it by now.
absl::Status CheckGoesOn(const std::string& model, const ModelVersion& version);

// Who asks, and until when.
struct Caller {
  CallControl control;
  std::string flow;  // as BatcherRequest's
};

// Calls `done` once, on any thread or before this returns; `request` and
// `response` live until then, and `response` is filled in if it is OK. Requests
// on one session have their turns in the order of these calls.
void Predict(Engine& engine, const v1::PredictRequest& request,
             const Caller& caller, v1::PredictResponse* response,
             std::function<void(absl::Status)> done);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_SERVICES_PREDICT_H_
