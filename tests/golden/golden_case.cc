#include "tests/golden/golden_case.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/model/executor.h"
#include "engine/model/library_export.h"
#include "engine/model/library_import.h"
#include "engine/model/model.h"
#include "engine/model/safetensors.h"
#include "kernels/status.h"
#include "tests/golden/case_config.h"
#include "tests/golden/case_masks.h"
#include "tests/golden/case_tensors.h"
#include "tests/golden/comparison.h"
#include "tests/golden/padded_grid.h"
#include "tests/golden/state_layout.h"

namespace recurve::golden {
namespace {

using Shape = std::vector<int64_t>;

// Device memory filled from the host; not null even if that is empty.
absl::StatusOr<std::unique_ptr<DeviceBuffer>> ToDevice(
    Backend& backend, const std::vector<float>& host) {
  const int64_t bytes = host.size() * sizeof(float);
  ASSIGN_OR_RETURN(auto buffer, backend.Allocate(std::max(bytes, kAlignment)));
  if (host.empty()) return buffer;
  RETURN_IF_ERROR(backend.Upload(buffer->data(), host.data(), bytes));
  return buffer;
}

absl::StatusOr<std::vector<float>> ToHost(Backend& backend,
                                          Matrix<const float> device) {
  std::vector<float> host(device.rows * device.cols);
  if (host.empty()) return host;
  RETURN_IF_ERROR(
      backend.Download(host.data(), device.data, host.size() * sizeof(float)));
  return host;
}

class CaseRun {
 public:
  CaseRun(const CaseConfig& config, const Safetensors& file, Backend& backend,
          CaseResult& result)
      : config_(config), tensors_(file), backend_(backend), result_(result) {}

  absl::Status Run() {
    RETURN_IF_ERROR(Build());
    for (size_t i = 0; i < config_.lengths.size(); ++i) {
      RETURN_IF_ERROR(Call(i));
    }
    RETURN_IF_ERROR(CompareLoss());
    RETURN_IF_ERROR(CompareParameterGradients());
    return tensors_.AllUsed();
  }

 private:
  int64_t batch_size() const { return config_.batch_size; }
  int64_t num_layers() const { return model_->layers().size(); }
  int64_t channels() const { return model_->hidden_channels(); }
  absl::Status Build() {
    ASSIGN_OR_RETURN(model_, Model::Create(config_.model));
    for (const Layer& layer : model_->layers()) {
      if (layer.channels() != channels()) {
        return absl::InvalidArgumentError("the layers' states do not stack");
      }
    }
    states_.emplace(*model_, batch_size());
    ASSIGN_OR_RETURN(
        imported_,
        ImportLibrary(*model_, tensors_.WithPrefix("param."), ImportOptions()));
    ASSIGN_OR_RETURN(weights_, ToDevice(backend_, imported_.parameters));
    ASSIGN_OR_RETURN(gradients_, ToDevice(backend_, imported_.parameters));
    gradient_sum_.assign(imported_.parameters.size(), 0.0f);
    ASSIGN_OR_RETURN(executor_,
                     Executor::Create(model_, backend_,
                                      static_cast<float*>(weights_->data())));
    return absl::OkStatus();
  }

  // --- One call of the module ---

  absl::Status Call(size_t call) {
    const int64_t length = config_.lengths[call];
    ASSIGN_OR_RETURN(const std::vector<int64_t> padded, Padding(length));
    const PaddedGrid grid(length, batch_size(), padded);
    RETURN_IF_ERROR(SetState(call));
    RETURN_IF_ERROR(Forward(call, grid));
    RETURN_IF_ERROR(CompareOutput(call, grid));
    RETURN_IF_ERROR(CompareStates(call));
    return Backward(call, grid);
  }

  absl::StatusOr<std::vector<int64_t>> Padding(int64_t length) {
    if (!config_.has_mask) return std::vector<int64_t>();
    return tensors_.Integers("mask_pad", {length, batch_size()});
  }

  Shape GridShape(size_t call, int64_t cols) const {
    return {config_.lengths[call], batch_size(), cols};
  }

  absl::Status Forward(size_t call, const PaddedGrid& grid) {
    ASSIGN_OR_RETURN(const std::vector<float> input,
                     tensors_.Floats(TensorName("input", call),
                                     GridShape(call, config_.input_size)));
    batch_ = {grid.cu_seqlens(), {}, grid.Pack(input, config_.input_size)};
    RETURN_IF_ERROR(model_->CheckBatch(batch_, /*allow_empty_sequences=*/true));
    if (config_.training) {
      ASSIGN_OR_RETURN(masks_, CaseMasks(*model_, grid, call, tensors_));
    }
    ForwardArgs args;
    args.batch = &batch_;
    args.state = state_;
    args.mode = config_.training ? Mode::kTraining : Mode::kGradients;
    args.open_ends = true;
    if (config_.training) args.masks = &masks_;
    ASSIGN_OR_RETURN(const ForwardResult result, executor_->Forward(args));
    ASSIGN_OR_RETURN(output_, ToHost(backend_, result.output));
    ASSIGN_OR_RETURN(state_, ToHost(backend_, result.state));
    return absl::OkStatus();
  }

  // Under post-norm the libraries' padded steps give the norm's bias.
  const Parameter* PostNormBias() const {
    const auto* sru = std::get_if<SruLayer>(&model_->layers().back().cell);
    if (sru == nullptr || sru->shape.layer_norm != NormPlace::kAfter) {
      return nullptr;
    }
    return model_->parameters().Find(
        LayerParameterName(0, num_layers() - 1, "layer_norm.bias"));
  }

  absl::Status CompareOutput(size_t call, const PaddedGrid& grid) {
    std::vector<float> filling;
    if (const Parameter* bias = PostNormBias()) {
      const auto first = imported_.parameters.begin() + bias->offset;
      filling.assign(first, first + bias->count());
    }
    const std::vector<float> ours = grid.Scatter(output_, channels(), filling);
    const Shape shape = GridShape(call, channels());
    const std::string name = TensorName("output", call);
    ASSIGN_OR_RETURN(const std::vector<float> theirs,
                     tensors_.Floats(name, shape));
    double error = Error(ours, theirs);
    if (tensors_.Has(name + "_f64")) {
      ASSIGN_OR_RETURN(const std::vector<double> exact,
                       tensors_.Doubles(name + "_f64", shape));
      error = Error(ours, exact);
    }
    result_.outputs.Note(name, error);
    ASSIGN_OR_RETURN(loss_weight_,
                     tensors_.Floats(TensorName("loss_weight", call), shape));
    AddToLoss(ours, loss_weight_);
    return absl::OkStatus();
  }

  // --- States ---

  Stacking ReturnedStacking() const {
    return config_.compatible_states ? Stacking::kDirections
                                     : Stacking::kLayers;
  }
  // Given states are never compatible with torch's.
  Shape GivenShape() const { return states_->Shape(Stacking::kLayers); }
  std::string StateInName() const {
    return config_.is_sru ? "state_in.c0" : "state_in.hidden";
  }

  // state_ is what the call before left, or empty.
  absl::Status SetState(size_t call) {
    if (call == 0) {
      if (!config_.has_state) return absl::OkStatus();
      ASSIGN_OR_RETURN(const std::vector<float> given,
                       tensors_.Floats(StateInName(), GivenShape()));
      state_ = states_->ToState(given, Stacking::kLayers);
      return absl::OkStatus();
    }
    // Forgetting the previous inputs and the hidden state are two things.
    if (config_.reset_between) {
      state_ = states_->ToState(states_->FromState(state_, Stacking::kLayers),
                                Stacking::kLayers);
    }
    if (!config_.carry_hidden) ForgetHidden();
    model_->BeginCall(absl::MakeSpan(state_), batch_size());
    return absl::OkStatus();
  }

  void ForgetHidden() {
    for (const Layer& layer : model_->layers()) {
      for (int64_t b = 0; b < batch_size(); ++b) {
        std::fill_n(state_.begin() + b * model_->state_size() + layer.c_offset,
                    layer.channels(), 0.0f);
      }
    }
  }

  absl::Status CompareStates(size_t call) {
    const Stacking stacking = ReturnedStacking();
    const std::string name =
        TensorName("state_out", call, config_.is_sru ? ".c" : ".hidden");
    ASSIGN_OR_RETURN(const std::vector<float> theirs,
                     tensors_.Floats(name, states_->Shape(stacking)));
    const std::vector<float> ours = states_->FromState(state_, stacking);
    result_.states.Note(name, Error(ours, theirs));
    ASSIGN_OR_RETURN(state_loss_weight_,
                     tensors_.Floats(TensorName("loss_weight_state", call),
                                     states_->Shape(stacking)));
    AddToLoss(ours, state_loss_weight_);
    for (int64_t l = 0; l < num_layers(); ++l) {
      RETURN_IF_ERROR(ComparePreviousInput(call, l));
    }
    return absl::OkStatus();
  }

  absl::Status ComparePreviousInput(size_t call, int64_t l) {
    const Layer& layer = model_->layers()[l];
    const auto* qrnn = std::get_if<QrnnLayer>(&layer.cell);
    if (layer.x_previous_offset < 0 || !qrnn->save_prev_x) {
      return absl::OkStatus();
    }
    const std::string name =
        TensorName("state_out", call, absl::StrCat(".prev_x.", l));
    ASSIGN_OR_RETURN(
        const std::vector<float> theirs,
        tensors_.Floats(name, {1, batch_size(), layer.input_size()}));
    result_.states.Note(name,
                        Error(states_->PreviousInput(state_, layer), theirs));
    return absl::OkStatus();
  }

  // --- Gradients ---

  absl::Status Backward(size_t call, const PaddedGrid& grid) {
    const std::vector<float> dy = grid.Pack(loss_weight_, channels());
    ASSIGN_OR_RETURN(const auto doutput, ToDevice(backend_, dy));
    const std::vector<float> dstate =
        states_->ToState(state_loss_weight_, ReturnedStacking());
    std::vector<float> dfeatures, dstate_in;
    BackwardArgs args;
    args.dstate = dstate;
    args.gradients = static_cast<float*>(gradients_->data());
    args.dfeatures = &dfeatures;
    args.dstate_in = &dstate_in;
    RETURN_IF_ERROR(executor_->Backward(
        {static_cast<float*>(doutput->data()), batch_.num_rows(), channels()},
        args));
    RETURN_IF_ERROR(AddGradients(grid));
    RETURN_IF_ERROR(CompareGradient(
        TensorName("grad.input", call), GridShape(call, config_.input_size),
        grid.Scatter(dfeatures, config_.input_size, {})));
    if (call > 0 || !config_.has_state) return absl::OkStatus();
    return CompareGradient("grad." + StateInName(), GivenShape(),
                           states_->FromState(dstate_in, Stacking::kLayers));
  }

  absl::Status CompareGradient(const std::string& name, const Shape& shape,
                               const std::vector<float>& ours) {
    ASSIGN_OR_RETURN(const std::vector<float> theirs,
                     tensors_.Floats(name, shape));
    result_.gradients.Note(name, Error(ours, theirs));
    return absl::OkStatus();
  }

  // The loss is the sum of the calls'.
  absl::Status AddGradients(const PaddedGrid& grid) {
    const int64_t count = gradient_sum_.size();
    ASSIGN_OR_RETURN(
        const std::vector<float> gradients,
        ToHost(backend_,
               Matrix<const float>(static_cast<float*>(gradients_->data()), 1,
                                   count)));
    for (int64_t i = 0; i < count; ++i) gradient_sum_[i] += gradients[i];
    const Parameter* bias = PostNormBias();
    if (bias == nullptr) return absl::OkStatus();
    const std::vector<double> padding =
        grid.SumOfPadding(loss_weight_, channels());
    for (int64_t c = 0; c < channels(); ++c) {
      gradient_sum_[bias->offset + c] += padding[c];
    }
    return absl::OkStatus();
  }

  absl::Status CompareParameterGradients() {
    const FloatTensorMap ours =
        ExportLibrary(*model_, gradient_sum_, imported_.names);
    for (const auto& [key, tensor] : ours) {
      const std::string name = "grad." + key;
      if (!tensors_.Has(name) && IsFrozen(key)) continue;
      RETURN_IF_ERROR(CompareGradient(name, tensor.shape, tensor.values));
    }
    return absl::OkStatus();
  }

  bool IsFrozen(const std::string& key) const {
    for (const LibraryTensor& tensor : ModelTensors(*model_, imported_.names)) {
      if (tensor.key == key) return !tensor.parameter->trainable;
    }
    return false;
  }

  // --- The loss, whose terms make the gradients ---

  void AddToLoss(const std::vector<float>& values,
                 const std::vector<float>& weights) {
    for (size_t i = 0; i < values.size(); ++i) {
      const double term = static_cast<double>(values[i]) * weights[i];
      loss_ += term;
      loss_scale_ += std::abs(term);
    }
  }

  // Of the size of its terms: they may cancel.
  absl::Status CompareLoss() {
    ASSIGN_OR_RETURN(const std::vector<float> theirs,
                     tensors_.Floats("loss", {1}));
    result_.outputs.Note(
        "loss", std::abs(loss_ - theirs[0]) / std::max(loss_scale_, 1.0));
    return absl::OkStatus();
  }

  const CaseConfig& config_;
  CaseTensors tensors_;
  Backend& backend_;
  CaseResult& result_;

  std::shared_ptr<const Model> model_;
  std::optional<StateLayout> states_;
  ImportedModel imported_;
  std::unique_ptr<DeviceBuffer> weights_;
  std::unique_ptr<DeviceBuffer> gradients_;
  std::unique_ptr<Executor> executor_;

  // Of the call at hand.
  SequenceBatch batch_;
  std::vector<LayerMasks> masks_;
  std::vector<float> output_;             // [N, C]
  std::vector<float> state_;              // [B, state_size], before or after
  std::vector<float> loss_weight_;        // [L, B, C]
  std::vector<float> state_loss_weight_;  // as states are returned

  // Of all calls.
  std::vector<float> gradient_sum_;
  double loss_ = 0;
  double loss_scale_ = 0;  // sum of the terms' absolute values
};

absl::Status Run(const std::string& path, Backend& backend,
                 CaseResult& result) {
  ASSIGN_OR_RETURN(const Safetensors file, Safetensors::Open(path));
  ASSIGN_OR_RETURN(const CaseConfig config, ReadCaseConfig(file.metadata()));
  if (config.is_srupp) {
    result.outcome = CaseResult::Outcome::kSkipped;
    result.reason = "SRU++ is not implemented";
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(CaseRun(config, file, backend, result).Run());
  const bool close = result.outputs.error <= kOutputTolerance &&
                     result.states.error <= kOutputTolerance &&
                     result.gradients.error <= kGradientTolerance;
  if (close) result.outcome = CaseResult::Outcome::kPassed;
  return absl::OkStatus();
}

std::string Describe(const char* kind, const WorstError& worst,
                     double tolerance) {
  const std::string text = absl::StrFormat("%s %.1e", kind, worst.error);
  return worst.error <= tolerance ? text
                                  : absl::StrCat(text, " (", worst.tensor, ")");
}

}  // namespace

CaseResult RunCase(const std::string& path, Backend& backend) {
  CaseResult result;
  const absl::Status status = Run(path, backend, result);
  if (!status.ok()) {
    result.outcome = CaseResult::Outcome::kFailed;
    result.reason = status.ToString();
  }
  return result;
}

std::string Describe(const CaseResult& result) {
  if (!result.reason.empty()) return result.reason;
  return absl::StrCat(
      Describe("outputs", result.outputs, kOutputTolerance), "  ",
      Describe("states", result.states, kOutputTolerance), "  ",
      Describe("gradients", result.gradients, kGradientTolerance));
}

}  // namespace recurve::golden
