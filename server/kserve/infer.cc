#include "server/kserve/infer.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/serve/predictor.h"
#include "kernels/status.h"
#include "server/kserve/decode.h"
#include "server/kserve/models.h"
#include "server/kserve/output_tensors.h"

namespace recurve::server::kserve {
namespace {

using inference::ModelInferRequest;
using inference::ModelInferResponse;

TensorLimits LimitsOf(const ServerConfig& config) {
  return {.max_input_bytes = config.max_message_bytes(),
          .max_output_bytes = MaxResultBytes(config)};
}

CallControl WithTimeout(CallControl control, absl::Duration timeout) {
  control.deadline = std::min(control.deadline, absl::Now() + timeout);
  return control;
}

// A request on its way.
class Call {
 public:
  Call(Engine& engine, ModelInferResponse& response,
       std::function<void(absl::Status)> done)
      : engine_(engine), response_(response), done_(std::move(done)) {}

  static void Start(std::shared_ptr<Call> call,
                    const ModelInferRequest& request,
                    const SharedMemoryRegions& regions,
                    const CallControl& control) {
    call->response_.set_id(request.id());
    absl::StatusOr<PredictRequest> native =
        call->Decode(request, regions, control);
    if (!native.ok()) return call->done_(native.status());
    Predictor& predictor = call->engine_.predictor;
    predictor.Predict(*std::move(native),
                      [call = std::move(call)](
                          absl::StatusOr<Prediction> prediction) mutable {
                        Reply(std::move(call), std::move(prediction));
                      });
  }

 private:
  absl::StatusOr<PredictRequest> Decode(const ModelInferRequest& request,
                                        const SharedMemoryRegions& regions,
                                        const CallControl& control) {
    PredictRequest native;
    ASSIGN_OR_RETURN(native.version,
                     FindVersion(request.model_name(), request.model_version(),
                                 [this](absl::string_view name) {
                                   return engine_.versions->Enter(name);
                                 }));
    ASSIGN_OR_RETURN(request_,
                     kserve::Decode(request, *native.version->model, regions,
                                    LimitsOf(engine_.config)));
    if (request_.parameters.sequence.has_value()) {
      return absl::UnimplementedError("sequences are not served yet");
    }
    native.batch = std::move(request_.batch);
    native.selection = request_.selection;
    native.control = WithTimeout(control, request_.parameters.timeout);
    return native;
  }

  // Encoding a large reply takes longer than a device should wait.
  static void Reply(std::shared_ptr<Call> call,
                    absl::StatusOr<Prediction> prediction) {
    constexpr int64_t kInlineNumbers = 1 << 14;
    if (!prediction.ok()) return call->done_(prediction.status());
    Engine& engine = call->engine_;
    const int64_t numbers =
        prediction->rows * (prediction->columns + prediction->hidden_columns);
    auto encode = [call = std::move(call),
                   prediction = *std::move(prediction)] {
      call->done_(call->Encode(prediction));
    };
    if (numbers <= kInlineNumbers) return encode();
    engine.io.AddPiece(std::move(encode));
  }

  absl::Status Encode(const Prediction& prediction) {
    response_.set_model_name(prediction.version->model_id);
    response_.set_model_version(absl::StrCat(prediction.version->number));
    const absl::Status status =
        WriteOutputs(request_.outputs, prediction, request_.layout, &response_);
    if (!status.ok()) {
      response_.clear_outputs();
      response_.clear_raw_output_contents();
    }
    return status;
  }

  Engine& engine_;
  ModelInferResponse& response_;
  const std::function<void(absl::Status)> done_;
  DecodedRequest request_;  // without its batch once that runs
};

}  // namespace

void Infer(Engine& engine, const SharedMemoryRegions& regions,
           const ModelInferRequest& request, const CallControl& control,
           ModelInferResponse& response,
           std::function<void(absl::Status)> done) {
  Call::Start(std::make_shared<Call>(engine, response, std::move(done)),
              request, regions, control);
}

}  // namespace recurve::server::kserve
