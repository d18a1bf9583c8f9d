#include "server/kserve/infer.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/serve/predictor.h"
#include "engine/serve/session_store.h"
#include "kernels/status.h"
#include "server/kserve/decode.h"
#include "server/kserve/models.h"
#include "server/kserve/output_tensors.h"
#include "server/kserve/parameters.h"

namespace recurve::server::kserve {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;

// Tensors with more take longer than a device should wait.
constexpr size_t kInlineBytes = 1 << 16;

TensorLimits LimitsOf(const ServerConfig& config) {
  return {.max_input_bytes = config.max_message_bytes(),
          .max_output_bytes = MaxResultBytes(config)};
}

absl::StatusOr<int> PriorityOf(const ServerConfig& config, int priority) {
  if (priority == 0) return config.default_priority();
  if (priority <= config.priority_levels()) return priority;
  return absl::InvalidArgumentError(absl::StrCat("parameters.priority: is ",
                                                 priority, ", must be 0 to ",
                                                 config.priority_levels()));
}

// --- Sequences ---

// Of all sessions those that sequences are have such ids.
std::string SessionId(const std::string& model, const SequencePart& part) {
  return absl::StrCat("kserve/", model, "/", part.id);
}

absl::Status WithoutStart(const ModelInferRequest& request,
                          const SequencePart& part, const absl::Status& error) {
  if (!absl::IsNotFound(error) || part.start) return error;
  return absl::InvalidArgumentError(
      absl::StrCat("parameters.sequence_start: must be true: model ",
                   request.model_name(), " has no sequence ", part.id.substr(1),
                   "; it has not begun, has ended or was idle for too long"));
}

// Whether a sequence on `version` goes on where the request asks for a version;
// an alias may mean another one by now.
absl::Status CheckGoesOn(const ModelInferRequest& request,
                         const ModelVersion& version) {
  ASSIGN_OR_RETURN(const std::string name,
                   VersionName(request.model_name(), request.model_version()));
  const bool other =
      name != version.name && absl::StrContains(name, "/versions/");
  if (!other) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("model_version: is ", request.model_version(),
                   ", the sequence is on version ", version.number));
}

// --- A request on its way ---

class Call : public std::enable_shared_from_this<Call> {
 public:
  Call(Engine& engine, const SharedMemoryRegions& regions,
       const ModelInferRequest& request, const Asker& asker,
       ModelInferResponse& response, std::function<void(absl::Status)> done)
      : engine_(engine),
        regions_(regions),
        request_(request),
        asker_(asker),
        response_(response),
        done_(std::move(done)) {}

  void Start() {
    response_.set_id(request_.id());
    auto parameters = ReadParameters(request_.parameters());
    if (!parameters.ok()) return done_(parameters.status());
    parameters_ = *std::move(parameters);
    asker_.control.deadline =
        std::min(asker_.control.deadline, absl::Now() + parameters_.timeout);
    if (parameters_.sequence.has_value()) return AcquireSequence();
    auto version = EnterVersion();
    if (!version.ok()) return done_(version.status());
    Predict(*std::move(version));
  }

 private:
  absl::StatusOr<ModelHandle> EnterVersion() const {
    return FindVersion(request_.model_name(), request_.model_version(),
                       [this](absl::string_view name) {
                         return engine_.versions->Enter(name);
                       });
  }

  void AcquireSequence() {
    const SequencePart& part = *parameters_.sequence;
    SessionUse use;
    use.id = SessionId(request_.model_name(), part);
    use.start = part.start;
    use.end = part.end;
    use.bytes = static_cast<int64_t>(request_.ByteSizeLong());
    use.control = asker_.control;
    if (part.start) {
      auto version = EnterVersion();
      if (!version.ok()) return done_(version.status());
      use.version = *std::move(version);
    }
    engine_.sessions.Acquire(
        std::move(use),
        [call = shared_from_this()](absl::StatusOr<SessionStore::Lease> lease) {
          call->GoOn(std::move(lease));
        });
  }

  // What the request is decoded for is the version that the sequence is on.
  void GoOn(absl::StatusOr<SessionStore::Lease> lease) {
    if (!lease.ok()) {
      return done_(
          WithoutStart(request_, *parameters_.sequence, lease.status()));
    }
    lease_ = *std::move(lease);
    const ModelHandle version = lease_->version();
    const absl::Status goes_on = CheckGoesOn(request_, *version);
    if (!goes_on.ok()) return Finish(goes_on);
    RunSoon(request_.ByteSizeLong(),
            [call = shared_from_this(), version] { call->Predict(version); });
  }

  void Predict(ModelHandle version) {
    auto native = Decode(std::move(version));
    if (!native.ok()) return Finish(native.status());
    engine_.predictor.Predict(
        *std::move(native),
        [call = shared_from_this()](absl::StatusOr<Prediction> prediction) {
          call->Reply(std::move(prediction));
        });
  }

  absl::StatusOr<PredictRequest> Decode(ModelHandle version) {
    ASSIGN_OR_RETURN(decoded_,
                     kserve::Decode(request_, parameters_, *version->model,
                                    regions_, LimitsOf(engine_.config)));
    PredictRequest native;
    native.version = std::move(version);
    native.batch = std::move(decoded_.batch);
    native.selection = decoded_.selection;
    native.control = asker_.control;
    native.flow = asker_.client;
    ASSIGN_OR_RETURN(native.priority,
                     PriorityOf(engine_.config, parameters_.priority));
    if (lease_ != nullptr) {
      RETURN_IF_ERROR(lease_->CheckRows(decoded_.layout.cu_seqlens.back()));
      native.carried = {lease_->state()};
    }
    return native;
  }

  void Reply(absl::StatusOr<Prediction> prediction) {
    if (!prediction.ok()) return Finish(prediction.status());
    if (lease_ != nullptr) {
      // The sequence's next request goes on before this one is answered.
      lease_->Commit(decoded_.layout.cu_seqlens.back());
      lease_.reset();
    }
    const size_t bytes = sizeof(float) * prediction->rows *
                         (prediction->columns + prediction->hidden_columns);
    RunSoon(bytes,
            [call = shared_from_this(), prediction = *std::move(prediction)] {
              call->Finish(call->Encode(prediction));
            });
  }

  absl::Status Encode(const Prediction& prediction) {
    response_.set_model_name(prediction.version->model_id);
    response_.set_model_version(absl::StrCat(prediction.version->number));
    const absl::Status status =
        WriteOutputs(decoded_.outputs, prediction, decoded_.layout, &response_);
    if (!status.ok()) {
      response_.clear_outputs();
      response_.clear_raw_output_contents();
    }
    return status;
  }

  void Finish(const absl::Status& status) {
    lease_.reset();  // before the server may think that all calls have ended
    done_(status);
  }

  // At once, or, for that many bytes, on a thread that may take its time.
  void RunSoon(size_t bytes, std::function<void()> work) {
    if (bytes <= kInlineBytes) return work();
    engine_.io.AddPiece(std::move(work));
  }

  Engine& engine_;
  const SharedMemoryRegions& regions_;
  const ModelInferRequest& request_;
  Asker asker_;
  ModelInferResponse& response_;
  const std::function<void(absl::Status)> done_;
  InferParameters parameters_;
  SessionStore::Lease lease_;  // null without a sequence
  DecodedRequest decoded_;     // without its batch once that runs
};

}  // namespace

void Infer(Engine& engine, const SharedMemoryRegions& regions,
           const ModelInferRequest& request, const Asker& asker,
           ModelInferResponse& response,
           std::function<void(absl::Status)> done) {
  std::make_shared<Call>(engine, regions, request, asker, response,
                         std::move(done))
      ->Start();
}

}  // namespace recurve::server::kserve
