#include "engine/serve/predictor.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/base/finite.h"
#include "engine/serve/output_selection.h"
#include "kernels/status.h"

namespace recurve {
namespace {

absl::Status CheckState(const PredictRequest& request) {
  const Model& model = *request.version->model;
  if (request.state.empty() && request.carried.empty() &&
      !request.selection.state) {
    return absl::OkStatus();
  }
  if (model.bidirectional()) {
    return absl::FailedPreconditionError(
        absl::StrCat(request.version->name,
                     " is bidirectional: it has no state to take or to give"));
  }
  if (request.state.empty()) return absl::OkStatus();
  const int64_t sequences = request.batch.num_sequences();
  const int64_t want = sequences * model.state_size();
  const int64_t size = static_cast<int64_t>(request.state.size());
  if (size != want) {
    return absl::InvalidArgumentError(
        absl::StrCat("state: ", size, " numbers, expected ", want, " (",
                     sequences, " sequences of ", model.state_size(), ")"));
  }
  const auto bad = FirstNotFinite(request.state);
  if (!bad.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("state: number ", *bad % model.state_size(), " of sequence ",
                   *bad / model.state_size(), " is NaN or infinite"));
}

bool WantsClasses(const OutputSelection& selection) {
  return selection.probabilities || selection.top_k > 0 || selection.classes;
}

absl::Status CheckSelection(const PredictRequest& request) {
  const Model& model = *request.version->model;
  const int64_t top_k = request.selection.top_k;
  if (top_k < 0 || top_k > model.output_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("top_k: is ", top_k, ", must be 0 to ",
                     model.output_size(), ", the model's outputs"));
  }
  if (WantsClasses(request.selection) &&
      model.config().loss().kind() == v1::Loss::MEAN_SQUARED_ERROR) {
    return absl::FailedPreconditionError(
        absl::StrCat(request.version->name,
                     " predicts numbers, not classes: ask for logits"));
  }
  return absl::OkStatus();
}

int64_t OutputRows(const PredictRequest& request) {
  return request.version->model->pools() ? request.batch.num_sequences()
                                         : request.batch.num_rows();
}

// Exact up to the wire's framing; a double so that it cannot overflow.
double ResultBytes(const PredictRequest& request) {
  const OutputSelection& selection = request.selection;
  const Model& model = *request.version->model;
  const double columns = static_cast<double>(model.output_size());
  const double row = (selection.logits ? columns : 0) +
                     (selection.probabilities ? columns : 0) +
                     2.0 * static_cast<double>(selection.top_k) +
                     (selection.classes ? 1 : 0);
  double numbers = row * static_cast<double>(OutputRows(request));
  if (selection.hidden) {
    numbers += static_cast<double>(model.hidden_channels()) *
               static_cast<double>(request.batch.num_rows());
  }
  if (selection.state) {
    numbers += static_cast<double>(model.state_size()) *
               static_cast<double>(request.batch.num_sequences());
  }
  return numbers * sizeof(float);
}

void Describe(const PredictRequest& request, Prediction& prediction) {
  const Model& model = *request.version->model;
  prediction.version = request.version;
  prediction.rows = OutputRows(request);
  prediction.columns = model.output_size();
  if (request.selection.hidden) {
    prediction.hidden_columns = model.hidden_channels();
  }
}

// `rows` are the batch's, the prediction's those of its outputs.
void Reserve(const OutputSelection& selection, int64_t rows,
             Prediction& prediction) {
  const int64_t numbers = prediction.rows * prediction.columns;
  if (selection.logits) prediction.logits.resize(numbers);
  if (selection.probabilities) prediction.probabilities.resize(numbers);
  prediction.top_classes.resize(prediction.rows * selection.top_k);
  prediction.top_probabilities.resize(prediction.rows * selection.top_k);
  if (selection.classes) prediction.classes.resize(prediction.rows);
  if (selection.hidden) {
    prediction.hidden.resize(rows * prediction.hidden_columns);
  }
}

// Of output row `row`, to its place.
absl::Status ReadClasses(const OutputSelection& selection, int64_t row,
                         absl::Span<const float> logits,
                         Prediction& prediction) {
  const double log_sum_exp = LogSumExp(logits);
  if (!std::isfinite(log_sum_exp)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the logits of row ", row, " are not finite"));
  }
  const size_t columns = logits.size();
  if (selection.probabilities) {
    Probabilities(logits, log_sum_exp,
                  absl::MakeSpan(prediction.probabilities)
                      .subspan(row * columns, columns));
  }
  if (selection.classes) prediction.classes[row] = ArgMax(logits);
  if (selection.top_k > 0) {
    const size_t begin = row * selection.top_k;
    TopK(logits, log_sum_exp,
         absl::MakeSpan(prediction.top_classes).subspan(begin, selection.top_k),
         absl::MakeSpan(prediction.top_probabilities)
             .subspan(begin, selection.top_k));
  }
  return absl::OkStatus();
}

absl::Status ReadRows(const OutputSelection& selection, const ChunkRows& rows,
                      Prediction& prediction) {
  const auto copy = [](Matrix<const float> from, int64_t row,
                       std::vector<float>& to) {
    std::copy(from.data, from.data + from.rows * from.cols,
              to.begin() + row * from.cols);
  };
  if (selection.hidden) {
    copy(rows.hidden, rows.chunk.first_row, prediction.hidden);
  }
  if (selection.logits) {
    copy(rows.output, rows.first_output_row, prediction.logits);
  }
  if (!WantsClasses(selection)) return absl::OkStatus();
  for (int64_t r = 0; r < rows.output.rows; ++r) {
    RETURN_IF_ERROR(ReadClasses(
        selection, rows.first_output_row + r,
        absl::MakeConstSpan(rows.output.row(r), rows.output.cols), prediction));
  }
  return absl::OkStatus();
}

using States = std::vector<std::shared_ptr<CarriedState>>;

// What the sequences go on from, as a call of the model begins.
States BeginCall(const PredictRequest& request) {
  const Model& model = *request.version->model;
  const int64_t sequences = request.batch.num_sequences();
  std::vector<float> carries = model.CarriesOf(request.state);
  carries.resize(sequences * model.carry_size());
  model.BeginCall(absl::MakeSpan(carries), sequences);
  States states;
  for (int64_t b = 0; b < sequences; ++b) {
    const auto row = carries.begin() + b * model.carry_size();
    states.push_back(CarriedState::Create(
        CarriedState::Values(row, row + model.carry_size()),
        CarriedState::Kind::kHostOnly));
  }
  return states;
}

// Empty for a batch that begins with zeros and leaves nothing.
States StatesOf(PredictRequest& request) {
  if (!request.carried.empty()) return std::move(request.carried);
  if (request.state.empty() && !request.selection.state) return {};
  return BeginCall(request);
}

// Reads the states of all sequences.
class StateReading {
 public:
  using Done = std::function<void(absl::StatusOr<std::vector<float>>)>;

  // Calls `done` with them [B, state_size], once.
  static void Start(const States& states, int64_t state_size, Done done) {
    auto reading = std::make_shared<StateReading>(states.size(), state_size,
                                                  std::move(done));
    for (size_t b = 0; b < states.size(); ++b) {
      states[b]->Read(
          [reading, b](absl::StatusOr<CarriedState::Values> values) {
            reading->Take(b, values);
          });
    }
  }

  StateReading(size_t sequences, int64_t state_size, Done done)
      : state_size_(state_size),
        done_(std::move(done)),
        left_(sequences),
        states_(sequences * state_size) {}

 private:
  void Take(size_t b, const absl::StatusOr<CarriedState::Values>& values) {
    {
      absl::MutexLock lock(&mutex_);
      if (values.ok()) {
        std::copy_n(values->begin(), state_size_,
                    states_.begin() + b * state_size_);
      }
      status_.Update(values.status());
      if (--left_ > 0) return;
    }
    if (!status_.ok()) return done_(status_);
    done_(std::move(states_));
  }

  const int64_t state_size_;
  const Done done_;
  absl::Mutex mutex_;  // of all below, until the last is there
  size_t left_;
  std::vector<float> states_;
  absl::Status status_;
};

}  // namespace

Predictor::Predictor(Batcher& batcher, const Options& options)
    : batcher_(batcher), options_(options) {}

absl::Status Predictor::Check(const PredictRequest& request) const {
  RETURN_IF_ERROR(request.version->model->CheckBatch(
      request.batch, /*allow_empty_sequences=*/false));
  if (request.batch.num_rows() > options_.max_rows) {
    return absl::ResourceExhaustedError(
        absl::StrCat("batch: ", request.batch.num_rows(),
                     " rows, the limit of one request is ", options_.max_rows));
  }
  RETURN_IF_ERROR(CheckState(request));
  RETURN_IF_ERROR(CheckSelection(request));
  const double bytes = ResultBytes(request);
  if (bytes > static_cast<double>(options_.max_result_bytes)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the results asked for take ", bytes, " bytes, the limit is ",
        options_.max_result_bytes, "; send fewer rows or ask for less"));
  }
  return request.control.Check();
}

void Predictor::Predict(PredictRequest request, Done done) {
  if (absl::Status status = Check(request); !status.ok()) return done(status);
  auto prediction = std::make_shared<Prediction>();
  Describe(request, *prediction);
  const OutputSelection selection = request.selection;

  BatcherRequest run;
  run.result_bytes = static_cast<int64_t>(ResultBytes(request));
  run.states = StatesOf(request);
  run.replay = request.replay;
  run.version = std::move(request.version);
  run.batch = std::move(request.batch);
  run.control = std::move(request.control);
  run.priority = request.priority;
  run.flow = std::move(request.flow);
  run.want_output = selection.logits || WantsClasses(selection);
  run.want_hidden = selection.hidden;
  run.accepted = [selection, rows = run.batch.num_rows(), prediction] {
    Reserve(selection, rows, *prediction);
  };
  run.consume = [selection, prediction](const ChunkRows& rows) {
    return ReadRows(selection, rows, *prediction);
  };
  run.done = [selection, prediction, states = run.states,
              done = std::move(done)](const absl::Status& status) {
    if (!status.ok()) return done(status);
    if (!selection.state) return done(std::move(*prediction));
    const int64_t state_size = prediction->version->model->state_size();
    StateReading::Start(states, state_size, [prediction, done](auto read) {
      if (!read.ok()) return done(read.status());
      prediction->state = *std::move(read);
      done(std::move(*prediction));
    });
  };
  batcher_.Enqueue(std::move(run));
}

}  // namespace recurve
