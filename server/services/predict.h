// Requests for predictions, however they come: alone or in a stream.
#ifndef RECURVE_SERVER_SERVICES_PREDICT_H_
#define RECURVE_SERVER_SERVICES_PREDICT_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/serve/call_control.h"
#include "engine/serve/model_version.h"
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
