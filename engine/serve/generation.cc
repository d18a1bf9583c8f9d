#include "engine/serve/generation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/model.h"
#include "engine/model/sequence_batch.h"
#include "engine/serve/token_text.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// More are drawn from elsewhere: a few tens of microseconds.
constexpr size_t kInlineLogits = 1 << 12;

constexpr auto kKind = CarriedState::Kind::kPooled;

absl::Status OutOfRange(const char* field, int64_t value, int64_t most) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": is ", value, ", must be 1 to ", most));
}

absl::Status CheckStops(const GenerationRequest& request,
                        const GenerationLimits& limits) {
  const std::vector<std::string>& stops = request.sample.stops;
  if (stops.size() > limits.max_stops) {
    return absl::InvalidArgumentError(absl::StrCat("stop: has ", stops.size(),
                                                   " strings, the limit is ",
                                                   limits.max_stops));
  }
  for (const std::string& stop : stops) {
    if (stop.empty() || stop.size() > limits.max_stop_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("stop: one has ", stop.size(), " bytes, must have 1 to ",
                       limits.max_stop_bytes));
    }
  }
  if (stops.empty() || HasText(*request.version)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "stop: ", request.version->name,
      " has no vocabulary, and so no text in which a string could be found"));
}

absl::Status CheckPrompt(const GenerationRequest& request) {
  if (request.prompt.empty()) {
    return absl::InvalidArgumentError(
        "prompt: is empty, must have a token at least");
  }
  SequenceBatch batch;
  batch.cu_seqlens = {0, static_cast<int64_t>(request.prompt.size())};
  batch.tokens = request.prompt;
  return request.version->model->CheckBatch(batch,
                                            /*allow_empty_sequences=*/false);
}

absl::Status CheckSession(const GenerationRequest& request) {
  if (request.session == nullptr) return absl::OkStatus();
  if (request.num_samples != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("n: is ", request.num_samples,
                     ", must be 1 with a session, which goes on as one"));
  }
  return request.session->CheckRows(
      static_cast<int64_t>(request.prompt.size()) + request.sample.max_tokens);
}

absl::Status CheckCounts(const GenerationRequest& request,
                         const GenerationLimits& limits) {
  const auto prompt_rows = static_cast<int64_t>(request.prompt.size());
  const int64_t max_tokens = request.sample.max_tokens;
  if (max_tokens < 1 || max_tokens > limits.max_rows) {
    return OutOfRange("max_tokens", max_tokens, limits.max_rows);
  }
  if (prompt_rows + max_tokens > limits.max_rows) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "prompt: has ", prompt_rows, " tokens, and with max_tokens ",
        max_tokens, " more; the limit is ", limits.max_rows));
  }
  if (request.num_samples < 1 || request.num_samples > limits.max_samples) {
    return OutOfRange("n", request.num_samples, limits.max_samples);
  }
  const int64_t top = request.sample.top_log_probabilities;
  if (top >= 0 && top <= limits.max_top_log_probabilities) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("top_log_probabilities: is ", top, ", must be 0 to ",
                   limits.max_top_log_probabilities));
}

}  // namespace

absl::Status CheckGeneration(const GenerationRequest& request,
                             const GenerationLimits& limits) {
  RETURN_IF_ERROR(CheckLanguageModel(*request.version));
  RETURN_IF_ERROR(CheckCounts(request, limits));
  RETURN_IF_ERROR(CheckPrompt(request));
  RETURN_IF_ERROR(CheckSampling(request.sample.sampling));
  RETURN_IF_ERROR(CheckStops(request, limits));
  return CheckSession(request);
}

// --- Start ---

std::shared_ptr<Generation> Generation::Start(Batcher& batcher,
                                              Executor executor,
                                              GenerationRequest request,
                                              std::function<void()> wake) {
  std::shared_ptr<Generation> generation(new Generation(
      batcher, std::move(executor), std::move(request), std::move(wake)));
  if (generation->request_.echo) generation->Emit(generation->Echo());
  generation->ReadSession();
  return generation;
}

Generation::Generation(Batcher& batcher, Executor executor,
                       GenerationRequest request, std::function<void()> wake)
    : batcher_(batcher),
      executor_(std::move(executor)),
      request_(std::move(request)),
      vocabulary_size_(request_.version->model->vocabulary_size()),
      wake_(std::move(wake)) {}

std::vector<GeneratedPiece> Generation::Echo() const {
  GeneratedPiece piece;
  piece.tokens = request_.prompt;
  for (const int32_t token : request_.prompt) {
    piece.text += TextOf(*request_.version, token);
  }
  std::vector<GeneratedPiece> pieces(request_.num_samples, piece);
  for (size_t i = 0; i < pieces.size(); ++i) pieces[i].sample = i;
  return pieces;
}

void Generation::ReadSession() {
  if (request_.session == nullptr) {
    return RunPrompt(
        CarriedState::Values(request_.version->model->carry_size()));
  }
  // A state of its own, so that the session's stays as it is until the end.
  request_.session->state()->Read(
      [self = shared_from_this()](absl::StatusOr<CarriedState::Values> values) {
        if (!values.ok()) return self->End(values.status());
        self->RunPrompt(*std::move(values));
      });
}

void Generation::RunPrompt(CarriedState::Values start) {
  states_ = {CarriedState::Create(std::move(start), kKind)};
  for (int64_t i = 0; i < request_.num_samples; ++i) {
    samples_.push_back(std::make_unique<GeneratedSample>(
        *request_.version, i, request_.prompt, request_.sample));
  }
  Run(request_.prompt, /*want_output=*/true, &Generation::Fork);
}

// One state a sample, all of them as after the prompt.
void Generation::Fork() {
  if (samples_.size() == 1) return Draw();
  states_[0]->Read([self = shared_from_this()](
                       absl::StatusOr<CarriedState::Values> values) {
    if (!values.ok()) return self->End(values.status());
    const std::vector<float> logits = self->logits_;
    while (self->states_.size() < self->samples_.size()) {
      self->states_.push_back(CarriedState::Create(*values, kKind));
      self->logits_.insert(self->logits_.end(), logits.begin(), logits.end());
    }
    self->Draw();
  });
}

// --- Steps ---

void Generation::Draw() {
  if (logits_.size() <= kInlineLogits) return DrawNow();
  executor_([self = shared_from_this()] { self->DrawNow(); });
}

void Generation::DrawNow() {
  std::vector<GeneratedPiece> pieces;
  for (size_t i = 0; i < samples_.size(); ++i) {
    auto piece = samples_[i]->Next(absl::MakeConstSpan(
        logits_.data() + i * vocabulary_size_, vocabulary_size_));
    if (!piece.ok()) return End(piece.status());
    pieces.push_back(*std::move(piece));
  }
  if (request_.session != nullptr && samples_[0]->finished()) {
    last_ = std::move(pieces[0]);
    return Run({samples_[0]->last_token()}, /*want_output=*/false,
               &Generation::CommitSession);
  }
  ForgetFinished();
  const bool finished = samples_.empty();
  if (Emit(std::move(pieces))) return RunStep();
  if (finished) End(absl::OkStatus());
}

void Generation::ForgetFinished() {
  for (size_t i = samples_.size(); i-- > 0;) {
    if (!samples_[i]->finished()) continue;
    samples_.erase(samples_.begin() + i);
    states_.erase(states_.begin() + i);
  }
}

void Generation::RunStep() {
  std::vector<int32_t> tokens;
  for (const auto& sample : samples_) tokens.push_back(sample->last_token());
  Run(std::move(tokens), /*want_output=*/true, &Generation::Draw);
}

void Generation::CommitSession() {
  const auto rows =
      static_cast<int64_t>(request_.prompt.size()) + samples_[0]->num_tokens();
  last_.position = request_.session->CommitState(states_[0], rows);
  Emit({std::move(last_)});
  End(absl::OkStatus());
}

// --- Requests of the batcher ---

void Generation::Run(std::vector<int32_t> tokens, bool want_output,
                     void (Generation::*next)()) {
  const auto rows = static_cast<int64_t>(tokens.size());
  const auto sequences = static_cast<int64_t>(states_.size());
  BatcherRequest request;
  request.version = request_.version;
  request.batch.tokens = std::move(tokens);
  for (int64_t b = 1; b <= sequences; ++b) {
    request.batch.cu_seqlens.push_back(b * rows / sequences);
  }
  request.states = states_;
  request.want_output = want_output;
  request.control = request_.control;
  request.priority = request_.priority;
  request.flow = request_.flow;
  logits_.resize(want_output ? sequences * vocabulary_size_ : 0);
  request.result_bytes = static_cast<int64_t>(logits_.size() * sizeof(float));
  request.consume = [self = shared_from_this(),
                     length = rows / sequences](const ChunkRows& chunk) {
    self->KeepLastRows(chunk, length);
    return absl::OkStatus();
  };
  request.done = [self = shared_from_this(), next](const absl::Status& status) {
    if (!status.ok()) return self->End(status);
    if (!self->ended()) (*self.*next)();
  };
  batcher_.Enqueue(std::move(request));
}

// Of sequences of that length.
void Generation::KeepLastRows(const ChunkRows& chunk, int64_t length) {
  for (int64_t r = 0; r < chunk.output.rows; ++r) {
    const int64_t row = chunk.first_output_row + r;
    if (row % length != length - 1) continue;
    const float* const from = chunk.output.row(r);
    std::copy(from, from + vocabulary_size_,
              logits_.begin() + row / length * vocabulary_size_);
  }
}

// --- To whoever reads ---

void Generation::WakeReader() {
  if (std::exchange(wakes_, false) && wake_ != nullptr) wake_();
}

bool Generation::Emit(std::vector<GeneratedPiece> pieces) {
  absl::MutexLock lock(&mutex_);
  for (GeneratedPiece& piece : pieces) pieces_.push_back(std::move(piece));
  WakeReader();
  if (samples_.empty() || ended_) return false;
  paused_ = pieces_.size() >= kMaxPieces;
  return !paused_;
}

void Generation::End(absl::Status status) {
  absl::MutexLock lock(&mutex_);
  if (ended_) return;
  ended_ = true;
  status_ = std::move(status);
  WakeReader();
}

bool Generation::ended() const {
  absl::MutexLock lock(&mutex_);
  return ended_;
}

absl::StatusOr<Generation::Step> Generation::Next(GeneratedPiece* piece) {
  {
    absl::MutexLock lock(&mutex_);
    if (pieces_.empty()) {
      wakes_ = !ended_;
      if (!ended_) return Step::kWait;
      RETURN_IF_ERROR(status_);
      return Step::kEnd;
    }
    *piece = std::move(pieces_.front());
    pieces_.pop_front();
    if (!paused_ || pieces_.size() > kMaxPieces / 2) return Step::kPiece;
    paused_ = false;
    if (ended_) return Step::kPiece;
  }
  RunStep();
  return Step::kPiece;
}

void Generation::Stop() {
  absl::MutexLock lock(&mutex_);
  wake_ = nullptr;
  ended_ = true;
}

}  // namespace recurve
