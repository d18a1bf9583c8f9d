#include "engine/serve/session_predictor.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/sha256.h"

namespace recurve {
namespace {

template <typename T>
absl::string_view BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()),
          sizeof(T) * values.size()};
}

absl::Status CheckRequest(const PredictRequest& request) {
  if (request.batch.num_sequences() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("batch: has ", request.batch.num_sequences(),
                     " sequences, a session takes one at a time"));
  }
  if (!request.state.empty()) {
    return absl::InvalidArgumentError(
        "state: a session has its own; send one or the other");
  }
  return absl::OkStatus();
}

void AddState(SessionStore::Lease lease, SessionPrediction result,
              SessionPredictor::Done done) {
  const CarriedState& state = *lease->state();
  state.Read([lease = std::move(lease), result = std::move(result),
              done = std::move(done)](
                 absl::StatusOr<CarriedState::Values> values) mutable {
    const int64_t state_size = lease->version()->model->state_size();
    lease.reset();
    if (!values.ok()) return done(values.status());
    values->resize(state_size);
    result.prediction.state = *std::move(values);
    done(std::move(result));
  });
}

}  // namespace

std::string InputHash(const SequenceBatch& batch) {
  Sha256 hash;
  hash.Update(absl::StrCat(batch.tokens.size(), " tokens "));
  hash.Update(BytesOf(batch.tokens));
  hash.Update(BytesOf(batch.features));
  return hash.Finish();
}

void SessionPredictor::Predict(SessionPredictRequest request, Done done) {
  const PredictRequest& predict = request.predict;
  if (absl::Status status = CheckRequest(predict); !status.ok()) {
    return done(status);
  }
  SessionUse use = request.use;
  use.control = predict.control;
  use.bytes = static_cast<int64_t>(BytesOf(predict.batch.tokens).size() +
                                   BytesOf(predict.batch.features).size());
  if (use.position) use.input_hash = InputHash(predict.batch);
  store_.Acquire(std::move(use),
                 [this, request = std::move(request), done = std::move(done)](
                     absl::StatusOr<SessionStore::Lease> lease) mutable {
                   if (!lease.ok()) return done(lease.status());
                   Run(*std::move(lease), std::move(request), std::move(done));
                 });
}

void SessionPredictor::Run(SessionStore::Lease lease,
                           SessionPredictRequest request, Done done) {
  const int64_t rows = request.predict.batch.num_rows();
  if (auto status = lease->CheckRows(rows); !status.ok()) return done(status);
  if (request.check_version) {
    if (auto status = request.check_version(*lease->version()); !status.ok()) {
      return done(status);
    }
  }
  PredictRequest predict = std::move(request.predict);
  predict.version = lease->version();
  predict.carried = {lease->state()};
  predict.replay = lease->replay();
  // Read when the rows are committed: an error of that is no error of theirs.
  const bool want_state = std::exchange(predict.selection.state, false);
  predictor_.Predict(std::move(predict), [lease = std::move(lease), rows,
                                          want_state, done = std::move(done)](
                                             absl::StatusOr<Prediction>
                                                 prediction) mutable {
    if (!prediction.ok()) {
      lease.reset();
      return done(prediction.status());
    }
    SessionPrediction result = {*std::move(prediction), lease->Commit(rows)};
    if (want_state) {
      return AddState(std::move(lease), std::move(result), std::move(done));
    }
    lease.reset();
    done(std::move(result));
  });
}

}  // namespace recurve
