// Predictions of model versions.
#ifndef RECURVE_ENGINE_SERVE_PREDICTOR_H_
#define RECURVE_ENGINE_SERVE_PREDICTOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/sequence_batch.h"
#include "engine/serve/batcher.h"
#include "engine/serve/call_control.h"
#include "engine/serve/carried_state.h"
#include "engine/serve/model_version.h"

namespace recurve {

// What to return. R output rows: N, or B for models that pool.
struct OutputSelection {
  bool logits = false;         // [R, O]
  bool probabilities = false;  // [R, O]
  int64_t top_k = 0;           // [R, top_k]; 0 = none
  bool classes = false;        // [R]
  bool hidden = false;         // [N, C]: before pooling and output
  bool state = false;          // [B, state_size]: after the batch
};

struct Prediction {
  ModelHandle version;
  int64_t rows = 0;            // R
  int64_t columns = 0;         // O
  int64_t hidden_columns = 0;  // C, if hidden is wanted
  std::vector<float> logits;
  std::vector<float> probabilities;
  std::vector<int32_t> top_classes;  // each row descending; ties by lower class
  std::vector<float> top_probabilities;
  std::vector<int32_t> classes;
  std::vector<float> hidden;
  std::vector<float> state;
};

struct PredictRequest {
  ModelHandle version;
  SequenceBatch batch;
  OutputSelection selection;
  std::vector<float> state;  // [B, state_size]; empty = zeros
  // Instead of `state`: [B], what each sequence goes on from and leaves, and
  // whether that is once more, as BatcherRequest has them.
  std::vector<std::shared_ptr<CarriedState>> carried = {};
  bool replay = false;
  CallControl control;
  int priority = 1;  // 1 goes first
  std::string flow;  // as BatcherRequest's
};

// Thread-safe.
class Predictor {
 public:
  struct Options {
    int64_t max_rows = 1 << 20;           // of a request
    int64_t max_result_bytes = 64 << 20;  // of a prediction
  };
  using Done = std::function<void(absl::StatusOr<Prediction>)>;

  // `batcher` outlives the predictor and all it started.
  Predictor(Batcher& batcher, const Options& options);

  // Returns at once; `done` is called once, on any thread, or before this
  // returns for a request that is refused: InvalidArgument for a bad
  // batch, state or selection; FailedPrecondition for state of a bidirectional
  // model or classes of a model without; ResourceExhausted beyond a limit, the
  // batcher's among them.
  void Predict(PredictRequest request, Done done);

 private:
  absl::Status Check(const PredictRequest& request) const;

  Batcher& batcher_;
  const Options options_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_PREDICTOR_H_
