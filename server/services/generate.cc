#include "server/services/generate.h"

#include <memory>
#include <random>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/data/utf8.h"
#include "engine/serve/generation.h"
#include "engine/serve/token_text.h"
#include "kernels/status.h"
#include "server/services/predict.h"
#include "server/stream_call.h"

namespace recurve::server {
namespace {

// --- Requests ---

uint64_t RandomSeed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

SamplingOptions FromWire(const v1::SamplingConfig& wire) {
  SamplingOptions sampling;
  if (wire.has_temperature()) sampling.temperature = wire.temperature();
  sampling.top_k = wire.top_k();
  if (wire.has_top_p()) sampling.top_p = wire.top_p();
  if (wire.has_repetition_penalty()) {
    sampling.repetition_penalty = wire.repetition_penalty();
  }
  sampling.seed = wire.has_seed() ? wire.seed() : RandomSeed();
  return sampling;
}

absl::StatusOr<std::vector<int32_t>> PromptOf(const ModelVersion& version,
                                              const v1::GenerateRequest& wire) {
  if (wire.has_tokens()) {
    const auto& tokens = wire.tokens().tokens();
    return std::vector<int32_t>(tokens.begin(), tokens.end());
  }
  if (wire.text().empty() || HasText(version)) {
    return TokensOf(version, wire.text());
  }
  return absl::FailedPreconditionError(
      absl::StrCat("text: ", version.name, " has no vocabulary; send tokens"));
}

GenerationLimits LimitsOf(const ServerConfig& config) {
  GenerationLimits limits;
  limits.max_rows = config.max_request_rows();
  return limits;
}

absl::StatusOr<GenerationRequest> FromWire(const Engine& engine,
                                           const ModelHandle& version,
                                           SessionStore::Lease session,
                                           const v1::GenerateRequest& wire) {
  RETURN_IF_ERROR(CheckLanguageModel(*version));
  GenerationRequest request;
  request.version = version;
  ASSIGN_OR_RETURN(request.prompt, PromptOf(*version, wire));
  request.num_samples = wire.n() == 0 ? 1 : wire.n();
  request.sample.sampling = FromWire(wire.sampling());
  request.sample.max_tokens = wire.max_tokens();
  request.sample.stops = {wire.stop().begin(), wire.stop().end()};
  request.sample.top_log_probabilities = wire.top_log_probabilities();
  request.echo = wire.echo();
  request.session = std::move(session);
  ASSIGN_OR_RETURN(request.priority, PriorityOf(engine, wire.priority()));
  RETURN_IF_ERROR(CheckGeneration(request, LimitsOf(engine.config)));
  return request;
}

// --- Responses ---

// What is not UTF-8, of models whose tokens are bytes, becomes U+FFFD.
std::string ValidUtf8(absl::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const size_t length = CodePointLength(text);
    absl::StrAppend(&valid,
                    length > 0 ? text.substr(0, length) : "\xEF\xBF\xBD");
    text.remove_prefix(length > 0 ? length : 1);
  }
  return valid;
}

v1::GenerateResponse::FinishReason ToWire(FinishReason reason) {
  switch (reason) {
    case FinishReason::kGoesOn:
      return v1::GenerateResponse::FINISH_REASON_UNSPECIFIED;
    case FinishReason::kStop:
      return v1::GenerateResponse::STOP;
    case FinishReason::kLength:
      return v1::GenerateResponse::LENGTH;
  }
  return v1::GenerateResponse::FINISH_REASON_UNSPECIFIED;
}

void ToWire(const GeneratedPiece& piece, v1::GenerateResponse* wire) {
  wire->set_sample(static_cast<int32_t>(piece.sample));
  wire->set_text(ValidUtf8(piece.text));
  wire->mutable_tokens()->Add(piece.tokens.begin(), piece.tokens.end());
  wire->mutable_log_probabilities()->Add(piece.log_probabilities.begin(),
                                         piece.log_probabilities.end());
  for (const auto& top : piece.top) {
    auto& candidates = *wire->add_top();
    for (const TokenLogProbability& candidate : top) {
      candidates.add_tokens(candidate.token);
      candidates.add_log_probabilities(candidate.log_probability);
    }
  }
  wire->set_finish_reason(ToWire(piece.finish_reason));
  wire->set_position(piece.position);
}

// --- The call ---

class GenerateCall : public StreamCall<v1::GenerateResponse> {
 public:
  GenerateCall(Engine& engine, const grpc::CallbackServerContext& context,
               const v1::GenerateRequest& request)
      : StreamCall(engine.calls, engine.io, engine.config.max_message_bytes(),
                   context),
        engine_(engine),
        request_(request) {}

 private:
  absl::StatusOr<Step> Next(v1::GenerateResponse* message) override;
  void Release() override;

  std::shared_ptr<GenerateCall> self() {
    return std::static_pointer_cast<GenerateCall>(shared_from_this());
  }
  // On work threads: what may wait, or takes longer than a piece may.
  absl::Status Prepare();
  absl::Status AskForSession();
  absl::Status Begin(const ModelHandle& version, SessionStore::Lease session);
  void Refuse(const absl::Status& status);

  Engine& engine_;
  // A work thread may look at it when the call has ended.
  const v1::GenerateRequest request_;

  absl::Mutex mutex_;
  bool asked_ ABSL_GUARDED_BY(mutex_) = false;
  bool released_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status refusal_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<Generation> generation_ ABSL_GUARDED_BY(mutex_);
  // Of the first message, until it is sent; set before generation_ is.
  v1::GenerateResponse heading_;
};

absl::StatusOr<GenerateCall::Step> GenerateCall::Next(
    v1::GenerateResponse* message) {
  std::shared_ptr<Generation> generation;
  {
    absl::MutexLock lock(&mutex_);
    RETURN_IF_ERROR(refusal_);
    if (!std::exchange(asked_, true)) {
      RETURN_IF_ERROR(engine_.work.TryAdd([call = self()] {
        const absl::Status status = call->Prepare();
        if (!status.ok()) call->Refuse(status);
      }));
    }
    generation = generation_;
  }
  if (generation == nullptr) return Step::kWait;
  GeneratedPiece piece;
  ASSIGN_OR_RETURN(const Generation::Step step, generation->Next(&piece));
  if (step == Generation::Step::kWait) return Step::kWait;
  if (step == Generation::Step::kEnd) return Step::kEnd;
  message->Swap(&heading_);
  ToWire(piece, message);
  return Step::kWrite;
}

absl::Status GenerateCall::Prepare() {
  RETURN_IF_ERROR(control().Check());
  if (request_.has_session()) return AskForSession();
  ASSIGN_OR_RETURN(const ModelHandle version,
                   FindModel(engine_, request_.model(), control()));
  return Begin(version, nullptr);
}

absl::Status GenerateCall::AskForSession() {
  ASSIGN_OR_RETURN(SessionUse use,
                   UseOf(engine_, request_.session(), request_.model()));
  use.control = control();
  engine_.sessions.Acquire(
      std::move(use),
      [call = self()](absl::StatusOr<SessionStore::Lease> lease) {
        // With whatever thread it is.
        call->engine_.work.AddPiece([call, lease = std::move(lease)] {
          absl::Status status = lease.status();
          if (status.ok()) {
            status = CheckGoesOn(call->request_.model(), *(*lease)->version());
          }
          if (status.ok()) status = call->Begin((*lease)->version(), *lease);
          if (!status.ok()) call->Refuse(status);
        });
      });
  return absl::OkStatus();
}

absl::Status GenerateCall::Begin(const ModelHandle& version,
                                 SessionStore::Lease session) {
  ASSIGN_OR_RETURN(GenerationRequest request,
                   FromWire(engine_, version, std::move(session), request_));
  request.control = control();
  request.flow = client();
  heading_.set_model_version(version->name);
  heading_.set_seed(request.sample.sampling.seed);
  {
    absl::MutexLock lock(&mutex_);
    if (released_) return absl::OkStatus();
    generation_ = Generation::Start(
        engine_.batcher,
        [&engine = engine_](std::function<void()> work) {
          engine.io.AddPiece(std::move(work));
        },
        std::move(request), [this] { Wake(); });
  }
  Wake();
  return absl::OkStatus();
}

void GenerateCall::Refuse(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    refusal_ = status;
  }
  Wake();
}

void GenerateCall::Release() {
  std::shared_ptr<Generation> generation;
  {
    absl::MutexLock lock(&mutex_);
    released_ = true;
    generation = std::move(generation_);
  }
  if (generation != nullptr) generation->Stop();
}

}  // namespace

grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
    Engine& engine, const grpc::CallbackServerContext& context,
    const v1::GenerateRequest& request) {
  return GenerateCall::Start(
      std::make_shared<GenerateCall>(engine, context, request));
}

}  // namespace recurve::server
