#include "engine/model/executor.h"

#include <cassert>
#include <cstddef>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/model/activations.h"
#include "engine/model/loss.h"
#include "engine/model/masks.h"
#include "engine/model/not_finite_scan.h"
#include "engine/model/output.h"
#include "engine/model/passes.h"
#include "engine/model/replay_cache.h"
#include "engine/model/transfer.h"
#include "engine/model/weights.h"
#include "kernels/status.h"

namespace recurve {

class Executor::Impl {
 public:
  Impl(std::shared_ptr<const Model> model, Backend& backend,
       const float* weights)
      : model_(std::move(model)),
        backend_(backend),
        parameters_(*model_),
        weights_(weights),
        skip_scales_(model_->layers().size(), 1.0f),
        replays_(backend) {}

  const Model& model() const { return *model_; }

  absl::Status ReadSkipScales();
  absl::Status PackProjections(Precision precision);
  absl::Status ReserveArena(int64_t bytes);
  absl::StatusOr<ForwardResult> Forward(const ForwardArgs& args);
  absl::StatusOr<LossResult> Loss(const Targets& targets);
  absl::StatusOr<LossResult> LossAndBackward(const Targets& targets,
                                             const BackwardArgs& args);
  absl::Status Backward(Matrix<float> doutput, const BackwardArgs& args);
  absl::StatusOr<std::vector<NotFiniteSequence>> FindNotFinite(
      const Targets& targets);

 private:
  // What the arena holds.
  enum class Phase {
    kNothing,
    kOutput,       // of inference
    kActivations,  // and the output, or all that it follows from
  };

  enum class Pass { kForward, kBackward };

  PassContext Context() {
    return {*model_, parameters_, weights_, projections_, a_, backend_};
  }
  absl::Status Prepare(const ForwardArgs& args);
  ReplayCache::Key PassKey(Pass pass) const;
  absl::Status CheckBackward(const BackwardArgs& args) const;
  absl::Status RunGradient(GradientArgs gradient, const BackwardArgs& args);
  absl::Status UploadBatch(const SequenceBatch& batch);
  absl::Status UploadState(absl::Span<const float> state, Matrix<float> to);
  absl::Status FillMasks(const ForwardArgs& args);
  absl::Status DownloadTo(std::vector<float>* host, Matrix<float> from);

  const std::shared_ptr<const Model> model_;
  Backend& backend_;
  const ModelParameters parameters_;
  const float* const weights_;      // device
  std::vector<float> skip_scales_;  // one a layer
  std::unique_ptr<DeviceBuffer> packed_;
  std::vector<PackedProjection> projections_;  // in it, one a layer; or empty

  std::unique_ptr<DeviceBuffer> arena_;
  ReplayCache replays_;  // of passes in that arena
  PassMemory memory_;    // of the last Forward, and what it is laid out as:
  Activations a_;
  Phase phase_ = Phase::kNothing;
};

absl::Status Executor::Impl::ReadSkipScales() {
  for (size_t l = 0; l < skip_scales_.size(); ++l) {
    const auto* sru = std::get_if<SruLayer>(&model_->layers()[l].cell);
    if (sru == nullptr || !sru->rescale) continue;
    RETURN_IF_ERROR(
        Download<float>(backend_, absl::MakeSpan(&skip_scales_[l], 1),
                        VectorView(weights_, parameters_.layers[l].scale_x)));
  }
  return absl::OkStatus();
}

absl::Status Executor::Impl::PackProjections(Precision precision) {
  const auto bytes_of = [&](const ProjectionShape& projection) {
    return backend_.PackedBytes(projection, precision);
  };
  const int64_t bytes = PackedBytes(*model_, bytes_of);
  if (bytes == 0) {
    return precision == Precision::kFloat32
               ? absl::OkStatus()
               : absl::FailedPreconditionError(
                     "this device multiplies by the weights as they are, at "
                     "float32 alone");
  }
  ASSIGN_OR_RETURN(packed_, backend_.Allocate(bytes));
  auto* to = static_cast<std::byte*>(packed_->data());
  for (size_t l = 0; l < model_->layers().size(); ++l) {
    const ProjectionShape projection = model_->layers()[l].projection();
    RETURN_IF_ERROR(backend_.Pack(
        projection, precision,
        MatrixView(weights_, parameters_.layers[l].projection), to));
    projections_.push_back({precision, to});
    to += bytes_of(projection);
  }
  return absl::OkStatus();
}

absl::StatusOr<ForwardResult> Executor::Impl::Forward(const ForwardArgs& args) {
  phase_ = Phase::kNothing;
  RETURN_IF_ERROR(Prepare(args));
  RETURN_IF_ERROR(UploadBatch(*args.batch));
  if (args.state.empty()) {
    RETURN_IF_ERROR(Zero(backend_, a_.state_in));
  } else {
    RETURN_IF_ERROR(UploadState(args.state, a_.state_in));
  }
  if (args.place_state) RETURN_IF_ERROR(args.place_state(a_.state_in));
  if (args.mode == Mode::kTraining) RETURN_IF_ERROR(FillMasks(args));
  RETURN_IF_ERROR(replays_.Run(PassKey(Pass::kForward),
                               [&] { return RunForward(Context()); }));
  phase_ = args.mode == Mode::kInference ? Phase::kOutput : Phase::kActivations;
  return ForwardResult{a_.output, a_.hidden(), a_.state_out};
}

absl::Status Executor::Impl::ReserveArena(int64_t bytes) {
  if (arena_ != nullptr && arena_->bytes() >= bytes) return absl::OkStatus();
  phase_ = Phase::kNothing;
  replays_.Clear();  // of operations in the old arena
  arena_.reset();    // never two arenas at once
  ASSIGN_OR_RETURN(arena_, backend_.Allocate(bytes));
  return absl::OkStatus();
}

absl::Status Executor::Impl::Prepare(const ForwardArgs& args) {
  const int64_t rows = args.batch->num_rows();
  const int64_t sequences = args.batch->num_sequences();
  memory_ = {args.mode, rows, sequences, args.open_ends, packed_ != nullptr};
  const auto lay_out = [this](void* base) {
    a_ = LayOut(*model_, memory_, base, std::move(a_.layers));
  };
  lay_out(nullptr);
  RETURN_IF_ERROR(ReserveArena(a_.bytes));
  lay_out(arena_->data());
  for (size_t l = 0; l < a_.layers.size(); ++l) {
    if (auto* sru = std::get_if<SruActivations>(&a_.layers[l].cell)) {
      sru->args.forward.shape.skip_scale = skip_scales_[l];
    }
  }
  BindWeights(Context());
  return absl::OkStatus();
}

// What the operations of a pass follow from, besides model, weights and arena.
ReplayCache::Key Executor::Impl::PassKey(Pass pass) const {
  return {static_cast<int64_t>(pass), static_cast<int64_t>(memory_.mode),
          memory_.num_rows, memory_.num_sequences, memory_.open_ends};
}

absl::Status Executor::Impl::RunGradient(GradientArgs gradient,
                                         const BackwardArgs& args) {
  phase_ = Phase::kNothing;
  if (!args.dstate.empty()) {
    RETURN_IF_ERROR(UploadState(args.dstate, a_.dstate_out));
  }
  gradient.gradients = args.gradients;
  gradient.has_dstate = !args.dstate.empty();
  gradient.want_dstate_in = args.dstate_in != nullptr;
  gradient.want_dfeatures = args.dfeatures != nullptr;
  ReplayCache::Key key = PassKey(Pass::kBackward);
  const auto add = [&key](int64_t value) { key.push_back(value); };
  add(reinterpret_cast<int64_t>(gradient.doutput.data));
  add(gradient.doutput.stride);
  add(gradient.loss != nullptr && gradient.loss->has_weights());
  add(reinterpret_cast<int64_t>(gradient.gradients));
  add(gradient.has_dstate);
  add(gradient.want_dstate_in);
  add(gradient.want_dfeatures);
  RETURN_IF_ERROR(
      replays_.Run(key, [&] { return RunBackward(Context(), gradient); }));
  RETURN_IF_ERROR(DownloadTo(args.dfeatures, FeatureGradient(a_)));
  return DownloadTo(args.dstate_in, a_.dstate_in);
}

absl::Status Executor::Impl::UploadBatch(const SequenceBatch& batch) {
  RETURN_IF_ERROR(Upload<int64_t>(backend_, a_.cu_seqlens, batch.cu_seqlens));
  return model_->takes_tokens()
             ? Upload<int32_t>(backend_, a_.tokens, batch.tokens)
             : Upload<float>(backend_, a_.input.data, batch.features);
}

absl::Status Executor::Impl::UploadState(absl::Span<const float> state,
                                         Matrix<float> to) {
  if (static_cast<int64_t>(state.size()) != to.rows * to.cols) {
    return absl::InvalidArgumentError(absl::StrCat(
        "state: ", state.size(), " numbers, not ", to.rows, " x ", to.cols));
  }
  return Upload<float>(backend_, to.data, state);
}

absl::Status Executor::Impl::FillMasks(const ForwardArgs& args) {
  const absl::Span<const int64_t> positions = args.random.positions;
  if (!positions.empty() &&
      static_cast<int64_t>(positions.size()) != a_.num_sequences) {
    return absl::InvalidArgumentError(
        absl::StrCat("positions: ", positions.size(), " of them for ",
                     a_.num_sequences, " sequences"));
  }
  RETURN_IF_ERROR(Upload<int64_t>(backend_, a_.positions, positions));
  return args.masks == nullptr
             ? DrawMasks(*model_, args.random, a_, backend_)
             : GiveMasks(*model_, args.random, *args.masks, a_, backend_);
}

absl::StatusOr<LossResult> Executor::Impl::Loss(const Targets& targets) {
  if (phase_ == Phase::kNothing) {
    return absl::FailedPreconditionError("Loss needs the output of a Forward");
  }
  const LossPass loss(*model_, targets, a_, backend_);
  RETURN_IF_ERROR(loss.Upload());
  RETURN_IF_ERROR(
      ForEachOutputTile(Context(), [&](int64_t first, Matrix<float> tile) {
        return loss.OfRows(first, tile, /*want_gradient=*/false);
      }));
  return loss.Result();
}

absl::StatusOr<LossResult> Executor::Impl::LossAndBackward(
    const Targets& targets, const BackwardArgs& args) {
  RETURN_IF_ERROR(CheckBackward(args));
  const LossPass loss(*model_, targets, a_, backend_);
  RETURN_IF_ERROR(loss.Upload());
  GradientArgs gradient;
  gradient.loss = &loss;
  RETURN_IF_ERROR(RunGradient(gradient, args));
  return loss.Result();
}

absl::Status Executor::Impl::Backward(Matrix<float> doutput,
                                      const BackwardArgs& args) {
  RETURN_IF_ERROR(CheckBackward(args));
  if (!memory_.open_ends) {
    return absl::FailedPreconditionError(
        "Backward from a gradient of the output needs a Forward with "
        "open_ends");
  }
  GradientArgs gradient;
  gradient.doutput = doutput;
  return RunGradient(gradient, args);
}

absl::Status Executor::Impl::CheckBackward(const BackwardArgs& args) const {
  if (phase_ != Phase::kActivations) {
    return absl::FailedPreconditionError(
        "gradients need a Forward not in inference mode");
  }
  const bool open = !args.dstate.empty() || args.dstate_in != nullptr ||
                    args.dfeatures != nullptr;
  if (!open || memory_.open_ends) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "gradients of state and features need a Forward with open_ends");
}

absl::StatusOr<std::vector<NotFiniteSequence>> Executor::Impl::FindNotFinite(
    const Targets& targets) {
  if (phase_ != Phase::kActivations) {
    return absl::FailedPreconditionError(
        "FindNotFinite needs a Forward not in inference mode");
  }
  RETURN_IF_ERROR(Loss(targets).status());
  std::vector<int64_t> cu_seqlens(a_.num_sequences + 1);
  RETURN_IF_ERROR(
      Download<int64_t>(backend_, absl::MakeSpan(cu_seqlens), a_.cu_seqlens));
  return ScanActivations(Context(), cu_seqlens);
}

// Nothing if `host` is null.
absl::Status Executor::Impl::DownloadTo(std::vector<float>* host,
                                        Matrix<float> from) {
  if (host == nullptr) return absl::OkStatus();
  host->resize(from.rows * from.cols);
  return Download<float>(backend_, absl::MakeSpan(*host), from.data);
}

absl::StatusOr<std::unique_ptr<Executor>> Executor::Create(
    std::shared_ptr<const Model> model, Backend& backend,
    const float* parameters, ParameterUse use, Precision precision) {
  assert(use == ParameterUse::kFixed || precision == Precision::kFloat32);
  auto impl = std::make_unique<Impl>(std::move(model), backend, parameters);
  RETURN_IF_ERROR(impl->ReadSkipScales());
  if (use == ParameterUse::kFixed) {
    RETURN_IF_ERROR(impl->PackProjections(precision));
  }
  return std::unique_ptr<Executor>(new Executor(std::move(impl)));
}

Executor::Executor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executor::~Executor() = default;

int64_t Executor::PackedBytes(
    const Model& model,
    absl::FunctionRef<int64_t(const ProjectionShape&)> bytes_of) {
  int64_t bytes = 0;
  for (const Layer& layer : model.layers()) {
    bytes += bytes_of(layer.projection());
  }
  return bytes;
}

int64_t Executor::ArenaBytes(const Model& model, Mode mode, int64_t num_rows,
                             int64_t num_sequences, bool packed) {
  const PassMemory pass = {.mode = mode,
                           .num_rows = num_rows,
                           .num_sequences = num_sequences,
                           .packed = packed};
  return LayOut(model, pass, nullptr).bytes;
}

absl::Status Executor::ReserveArena(int64_t bytes) {
  return impl_->ReserveArena(bytes);
}
absl::StatusOr<ForwardResult> Executor::Forward(const ForwardArgs& args) {
  return impl_->Forward(args);
}

absl::StatusOr<LossResult> Executor::Loss(const Targets& targets) {
  return impl_->Loss(targets);
}

absl::StatusOr<LossResult> Executor::LossAndBackward(const Targets& targets,
                                                     const BackwardArgs& args) {
  return impl_->LossAndBackward(targets, args);
}

absl::Status Executor::Backward(Matrix<float> doutput,
                                const BackwardArgs& args) {
  return impl_->Backward(doutput, args);
}

absl::StatusOr<std::vector<NotFiniteSequence>> Executor::FindNotFinite(
    const Targets& targets) {
  return impl_->FindNotFinite(targets);
}

const Model& Executor::model() const { return impl_->model(); }

}  // namespace recurve
