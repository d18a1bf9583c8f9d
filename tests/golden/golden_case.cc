#include "tests/golden/golden_case.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
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
#include "tests/golden/case_tensors.h"
#include "tests/golden/padded_grid.h"

namespace recurve::golden {
namespace {

using Shape = std::vector<int64_t>;

// max|a - b| / max(max|b|, 1); infinite if there is a NaN.
template <typename Reference>
double Error(const std::vector<float>& a, const std::vector<Reference>& b) {
  double difference = 0, largest = 1;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - b[i]);
    if (std::isnan(d)) return std::numeric_limits<double>::infinity();
    difference = std::max(difference, d);
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
  }
  return difference / largest;
}

void Note(const std::string& tensor, double error, WorstError& worst) {
  if (error > worst.error || worst.tensor.empty()) worst = {error, tensor};
}

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
    RETURN_IF_ERROR(CheckLoss());
    RETURN_IF_ERROR(CompareParameterGradients());
    return tensors_.AllUsed();
  }

 private:
  int64_t batch_size() const { return config_.batch_size; }
  int64_t num_layers() const { return model_->layers().size(); }
  int64_t channels() const { return model_->hidden_channels(); }
  int64_t directions() const {
    const auto* sru = std::get_if<SruLayer>(&model_->layers()[0].cell);
    return sru != nullptr ? sru->shape.num_directions : 1;
  }

  // "output", or "output_2" in a second call; "state_out_2.hidden".
  static std::string Name(const std::string& base, size_t call,
                          const std::string& rest = "") {
    return absl::StrCat(base, call == 0 ? "" : "_2", rest);
  }

  absl::Status Build() {
    ASSIGN_OR_RETURN(model_, Model::Create(config_.model));
    for (const Layer& layer : model_->layers()) {
      if (layer.channels() != channels()) {
        return absl::InvalidArgumentError("the layers' states do not stack");
      }
    }
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
                     tensors_.Floats(Name("input", call),
                                     GridShape(call, config_.input_size)));
    batch_ = {grid.cu_seqlens(), {}, grid.Pack(input, config_.input_size)};
    RETURN_IF_ERROR(model_->CheckBatch(batch_, /*allow_empty_sequences=*/true));
    ASSIGN_OR_RETURN(masks_, Masks(call, grid));
    ForwardArgs args;
    args.batch = &batch_;
    args.state = state_;
    args.mode = config_.training ? Mode::kTraining : Mode::kGradients;
    if (config_.training) args.masks = &masks_;
    ASSIGN_OR_RETURN(const ForwardResult result, executor_->Forward(args));
    ASSIGN_OR_RETURN(output_, ToHost(backend_, result.output));
    ASSIGN_OR_RETURN(state_, ToHost(backend_, result.state));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<LayerMasks>> Masks(size_t call,
                                                const PaddedGrid& grid) {
    std::vector<LayerMasks> masks(num_layers());
    if (!config_.training) return masks;
    for (int64_t l = 0; l < num_layers(); ++l) {
      const Layer& layer = model_->layers()[l];
      const std::string index = absl::StrCat(".", l);
      LayerMasks& m = masks[l];
      if (const auto* sru = std::get_if<SruLayer>(&layer.cell)) {
        if (sru->dropout > 0) {
          ASSIGN_OR_RETURN(m.cell, tensors_.Floats(Name("mask_c", call, index),
                                                   {batch_size(), channels()}));
        }
        if (sru->rnn_dropout > 0) {
          ASSIGN_OR_RETURN(m.input,
                           tensors_.Floats(Name("mask_in", call, index),
                                           {batch_size(), layer.input_size()}));
        }
        continue;
      }
      const auto& qrnn = std::get<QrnnLayer>(layer.cell);
      if (qrnn.shape.zoneout > 0) {
        ASSIGN_OR_RETURN(
            m.zoneout,
            PackedMask(Name("zoneout_mask", call, index), call, grid));
      }
      if (qrnn.dropout > 0) {
        ASSIGN_OR_RETURN(
            m.dropout,
            PackedMask(Name("dropout_mask", call, index), call, grid));
      }
    }
    return masks;
  }

  absl::StatusOr<std::vector<float>> PackedMask(const std::string& name,
                                                size_t call,
                                                const PaddedGrid& grid) {
    ASSIGN_OR_RETURN(const std::vector<float> mask,
                     tensors_.Floats(name, GridShape(call, channels())));
    return grid.Pack(mask, channels());
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
    const std::string name = Name("output", call);
    ASSIGN_OR_RETURN(const std::vector<float> theirs,
                     tensors_.Floats(name, shape));
    double error = Error(ours, theirs);
    if (tensors_.Has(name + "_f64")) {
      ASSIGN_OR_RETURN(const std::vector<double> exact,
                       tensors_.Doubles(name + "_f64", shape));
      error = Error(ours, exact);
    }
    Note(name, error, result_.outputs);
    ASSIGN_OR_RETURN(loss_weight_,
                     tensors_.Floats(Name("loss_weight", call), shape));
    AddToLoss(ours, loss_weight_);
    return absl::OkStatus();
  }

  // --- States ---

  // Calls f(index in a state tensor, index in our [B, state_size]). Tensors are
  // [layers, B, C], or compatible with torch's: [layers * D, B, H].
  template <typename F>
  void ForEachState(bool compatible, const F& f) const {
    const int64_t d_count = directions(), h = channels() / d_count;
    for (int64_t l = 0; l < num_layers(); ++l) {
      for (int64_t b = 0; b < batch_size(); ++b) {
        for (int64_t c = 0; c < channels(); ++c) {
          const int64_t d = c / h, j = c % h;
          const int64_t stacked = (l * batch_size() + b) * channels() + c;
          const int64_t torch = ((l * d_count + d) * batch_size() + b) * h + j;
          f(compatible ? torch : stacked,
            b * model_->state_size() + model_->layers()[l].c_offset + c);
        }
      }
    }
  }

  Shape StateShape(bool compatible) const {
    const int64_t d = compatible ? directions() : 1;
    return {num_layers() * d, batch_size(), channels() / d};
  }

  std::vector<float> FromState(const std::vector<float>& state,
                               bool compatible) const {
    std::vector<float> tensor(num_layers() * batch_size() * channels());
    ForEachState(compatible,
                 [&](int64_t t, int64_t s) { tensor[t] = state[s]; });
    return tensor;
  }

  std::vector<float> ToState(const std::vector<float>& tensor,
                             bool compatible) const {
    std::vector<float> state(batch_size() * model_->state_size(), 0.0f);
    ForEachState(compatible,
                 [&](int64_t t, int64_t s) { state[s] = tensor[t]; });
    return state;
  }

  std::string StateInName() const {
    return config_.is_sru ? "state_in.c0" : "state_in.hidden";
  }

  // state_ is what the call before left, or empty.
  absl::Status SetState(size_t call) {
    if (call == 0) {
      if (!config_.has_state) return absl::OkStatus();
      ASSIGN_OR_RETURN(const std::vector<float> given,
                       tensors_.Floats(StateInName(), StateShape(false)));
      state_ = ToState(given, false);
      return absl::OkStatus();
    }
    if (config_.reset_between) {
      // Forgets the previous inputs; the hidden state is given all the same.
      state_ = ToState(FromState(state_, false), false);
    }
    if (!config_.carry_hidden) {
      ForEachState(false, [&](int64_t, int64_t s) { state_[s] = 0; });
    }
    model_->BeginCall(absl::MakeSpan(state_));
    return absl::OkStatus();
  }

  absl::Status CompareStates(size_t call) {
    const bool compatible = config_.compatible_states;
    const std::string name =
        Name("state_out", call, config_.is_sru ? ".c" : ".hidden");
    ASSIGN_OR_RETURN(const std::vector<float> theirs,
                     tensors_.Floats(name, StateShape(compatible)));
    const std::vector<float> ours = FromState(state_, compatible);
    Note(name, Error(ours, theirs), result_.states);
    ASSIGN_OR_RETURN(state_loss_weight_,
                     tensors_.Floats(Name("loss_weight_state", call),
                                     StateShape(compatible)));
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
        Name("state_out", call, absl::StrCat(".prev_x.", l));
    const int64_t cols = layer.input_size();
    ASSIGN_OR_RETURN(const std::vector<float> theirs,
                     tensors_.Floats(name, {1, batch_size(), cols}));
    std::vector<float> ours;
    for (int64_t b = 0; b < batch_size(); ++b) {
      const auto first =
          state_.begin() + b * model_->state_size() + layer.x_previous_offset;
      ours.insert(ours.end(), first, first + cols);
    }
    Note(name, Error(ours, theirs), result_.states);
    return absl::OkStatus();
  }

  // --- Gradients ---

  absl::Status Backward(size_t call, const PaddedGrid& grid) {
    const std::vector<float> dy = grid.Pack(loss_weight_, channels());
    ASSIGN_OR_RETURN(const auto doutput, ToDevice(backend_, dy));
    const std::vector<float> dstate =
        ToState(state_loss_weight_, config_.compatible_states);
    std::vector<float> dfeatures, dstate_in;
    BackwardArgs args;
    args.doutput = {static_cast<float*>(doutput->data()), batch_.num_rows(),
                    channels()};
    args.dstate = dstate;
    args.gradients = static_cast<float*>(gradients_->data());
    args.dfeatures = &dfeatures;
    args.dstate_in = &dstate_in;
    RETURN_IF_ERROR(executor_->Backward(args));
    RETURN_IF_ERROR(AddGradients(grid));
    RETURN_IF_ERROR(CompareGradient(
        Name("grad.input", call), GridShape(call, config_.input_size),
        grid.Scatter(dfeatures, config_.input_size, {})));
    if (call > 0 || !config_.has_state) return absl::OkStatus();
    return CompareGradient("grad." + StateInName(), StateShape(false),
                           FromState(dstate_in, false));
  }

  absl::Status CompareGradient(const std::string& name, const Shape& shape,
                               const std::vector<float>& ours) {
    ASSIGN_OR_RETURN(const std::vector<float> theirs,
                     tensors_.Floats(name, shape));
    Note(name, Error(ours, theirs), result_.gradients);
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
        ToLibraryLayout(*model_, gradient_sum_, imported_.names);
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

  // --- The loss, which shows that the weights are the file's ---

  void AddToLoss(const std::vector<float>& values,
                 const std::vector<float>& weights) {
    for (size_t i = 0; i < values.size(); ++i) {
      const double term = static_cast<double>(values[i]) * weights[i];
      loss_ += term;
      loss_scale_ += std::abs(term);
    }
  }

  absl::Status CheckLoss() {
    ASSIGN_OR_RETURN(const std::vector<float> theirs,
                     tensors_.Floats("loss", {1}));
    const double difference = std::abs(loss_ - theirs[0]);
    if (difference <= kOutputTolerance * std::max(loss_scale_, 1.0)) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        absl::StrCat("loss is ", loss_, ", in the file ", theirs[0]));
  }

  const CaseConfig& config_;
  CaseTensors tensors_;
  Backend& backend_;
  CaseResult& result_;

  std::shared_ptr<const Model> model_;
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
