// Predictions of live sequences: each goes on where the session's last one
// ended, with the bits of one run over all rows that the session has had.
#ifndef RECURVE_ENGINE_SERVE_SESSION_PREDICTOR_H_
#define RECURVE_ENGINE_SERVE_SESSION_PREDICTOR_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/sequence_batch.h"
#include "engine/serve/model_version.h"
#include "engine/serve/predictor.h"
#include "engine/serve/session_store.h"

namespace recurve {

struct SessionPredictRequest {
  // Its input_hash, bytes and control are filled in from `predict`.
  SessionUse use;
  // Of one sequence, without `state` and `carried`; `version` is not used.
  PredictRequest predict;
  // What the caller has against the session's version, if anything; may be
  // empty.
  std::function<absl::Status(const ModelVersion&)> check_version;
};

struct SessionPrediction {
  Prediction prediction;
  int64_t position = 0;  // rows that the session has then had
};

// Of rows that differ, different.
std::string InputHash(const SequenceBatch& batch);

// Thread-safe.
class SessionPredictor {
 public:
  using Done = std::function<void(absl::StatusOr<SessionPrediction>)>;

  // Both outlive it and all it started.
  SessionPredictor(SessionStore& store, Predictor& predictor)
      : store_(store), predictor_(predictor) {}

  // Returns at once; `done` is called once, on any thread or before this
  // returns. The session is as after the rows if it is OK, else as before.
  // Errors are SessionStore::Acquire's and Predictor::Predict's.
  void Predict(SessionPredictRequest request, Done done);

 private:
  void Run(SessionStore::Lease lease, SessionPredictRequest request, Done done);

  SessionStore& store_;
  Predictor& predictor_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_SESSION_PREDICTOR_H_
