#include <cstdint>
#include <variant>

#include "engine/model/loss.h"
#include "engine/model/output.h"
#include "engine/model/passes.h"
#include "engine/model/transfer.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// Each step takes the gradient on its part's output and returns the one on its
// input; absent gradients are not wanted.
class BackwardPass {
 public:
  BackwardPass(const PassContext& context, const GradientArgs& args)
      : context_(context),
        model_(context.model),
        parameters_(context.parameters),
        weights_(context.weights),
        a_(context.activations),
        backend_(context.backend),
        args_(args) {}

  absl::Status Run() {
    RETURN_IF_ERROR(ZeroUnwritten());
    if (args_.want_dstate_in) RETURN_IF_ERROR(Zero(backend_, a_.dstate_in));
    const bool want_dinput = model_.takes_tokens() || args_.want_dfeatures;
    ASSIGN_OR_RETURN(Matrix<float> drows, Output());
    if (model_.pools()) {
      ASSIGN_OR_RETURN(drows, Pool(drows));
    }
    for (size_t l = a_.layers.size(); l-- > 0;) {
      ASSIGN_OR_RETURN(drows, Layer(l, drows, l > 0 || want_dinput));
    }
    return want_dinput ? Input(drows) : absl::OkStatus();
  }

 private:
  // Padding and frozen parameters have no other writer.
  absl::Status ZeroUnwritten() {
    const ParameterLayout& layout = model_.parameters();
    int64_t end = 0;  // of the last parameter that has one
    for (const Parameter& parameter : layout.parameters()) {
      if (!parameter.trainable) continue;
      RETURN_IF_ERROR(ZeroRange(end, parameter.offset));
      end = parameter.offset + parameter.count();
    }
    return ZeroRange(end, layout.buffer_size());
  }

  absl::Status ZeroRange(int64_t begin, int64_t end) {
    return Zero(backend_,
                Matrix<float>(args_.gradients + begin, 1, end - begin));
  }

  absl::Status ApplyMask(Matrix<float> rows, Matrix<float> mask) {
    return mask ? backend_.Multiply(rows, mask) : absl::OkStatus();
  }

  absl::StatusOr<Matrix<float>> Output() {
    RETURN_IF_ERROR(args_.loss != nullptr ? LossRows()
                                          : OutputRows(0, args_.doutput));
    if (parameters_.output_weight == nullptr) {
      return args_.loss != nullptr ? a_.output : args_.doutput;
    }
    RETURN_IF_ERROR(ApplyMask(a_.dlinear_input, a_.output_mask));
    return a_.dlinear_input;
  }

  // The gradient of a tile of the output is used before the next tile comes.
  absl::Status LossRows() {
    return ForEachOutputTile(
        context_, [&](int64_t first, Matrix<float> tile) -> absl::Status {
          RETURN_IF_ERROR(
              args_.loss->OfRows(first, tile, /*want_gradient=*/true));
          return OutputRows(first, tile);
        });
  }

  // Of rows [first, first + dy.rows), after those before them.
  absl::Status OutputRows(int64_t first, Matrix<float> dy) {
    if (parameters_.output_weight == nullptr) return absl::OkStatus();
    LinearBackwardArgs<float> args;
    args.x = a_.features().row_range(first, dy.rows);
    args.weight = MatrixView(weights_, parameters_.output_weight);
    args.dy = dy;
    args.dx = a_.dlinear_input.row_range(first, dy.rows);
    args.dweight = MatrixView(args_.gradients, parameters_.output_weight);
    args.dbias = VectorView(args_.gradients, parameters_.output_bias);
    args.continues = first > 0;
    return backend_.LinearBackward(args);
  }

  absl::StatusOr<Matrix<float>> Pool(Matrix<float> dy) {
    PoolArgs<float> args = a_.pool;
    args.dy = dy;
    args.dx = a_.dhidden;
    RETURN_IF_ERROR(backend_.PoolBackward(args));
    return args.dx;
  }

  absl::StatusOr<Matrix<float>> Layer(size_t l, Matrix<float> dy,
                                      bool want_dx) {
    LayerActivations& layer = a_.layers[l];
    const Matrix<float> dx =
        want_dx || layer.block_input ? layer.dx : Matrix<float>();
    RETURN_IF_ERROR(std::visit(
        [&](auto& cell) {
          BindGradients(l, dy, dx, cell.args);
          return Cell(l, dy, cell);
        },
        layer.cell));
    return layer.block_input ? InputToHidden(l, dx, want_dx) : dx;
  }

  template <typename Args>
  void BindGradients(size_t l, Matrix<float> dy, Matrix<float> dx, Args& args) {
    const int64_t first = model_.layers()[l].c_offset;
    args.dy = dy;
    args.dx = dx;
    if (args_.has_dstate) {
      args.dc_last = a_.dstate_out.columns(first, dy.cols);
    }
    if (args_.want_dstate_in) {
      args.dc_first = a_.dstate_in.columns(first, dy.cols);
    }
  }

  absl::Status Cell(size_t l, Matrix<float>, SruActivations& sru) {
    SruBackwardArgs<float>& args = sru.args;
    args.gradients = SruViews(args_.gradients, parameters_.layers[l]);
    if (!parameters_.layers[l].weight_c->trainable) args.gradients.v = nullptr;
    RETURN_IF_ERROR(backend_.SruBackward(args));
    if (!args.forward.shape.has_step_coefficients) return absl::OkStatus();
    return ZeroBiasOfStepCoefficients(args.forward.shape,
                                      args.gradients.projection_bias);
  }

  // The libraries' module v has no bias: ours stays zero.
  absl::Status ZeroBiasOfStepCoefficients(const SruShape& shape, float* bias) {
    const int64_t h = shape.hidden_size, groups = shape.gate_groups();
    for (int64_t d = 0; d < shape.num_directions; ++d) {
      float* const v = bias + (d * groups + groups - 2) * h;
      RETURN_IF_ERROR(Zero(backend_, Matrix<float>(v, 2, h)));
    }
    return absl::OkStatus();
  }

  absl::Status Cell(size_t l, Matrix<float> dy, QrnnActivations& qrnn) {
    RETURN_IF_ERROR(ApplyMask(dy, qrnn.dropout_mask));
    qrnn.args.gradients = QrnnViews(args_.gradients, parameters_.layers[l]);
    return backend_.QrnnBackward(qrnn.args);
  }

  absl::StatusOr<Matrix<float>> InputToHidden(size_t l, Matrix<float> dy,
                                              bool want_dx) {
    const Matrix<float> x = a_.layers[l].block_input;
    const Parameter* weight = parameters_.layers[l].input_to_hidden;
    LinearBackwardArgs<float> args;
    args.x = x;
    args.weight = MatrixView(weights_, weight);
    args.dy = dy;
    if (want_dx) args.dx = a_.layers[l].dblock_input;
    args.dweight = MatrixView(args_.gradients, weight);
    RETURN_IF_ERROR(backend_.LinearBackward(args));
    return args.dx;
  }

  // A tied table has its gradient as output weight already.
  absl::Status Input(Matrix<float> dinput) {
    RETURN_IF_ERROR(ApplyMask(dinput, a_.input_mask));
    if (parameters_.embedding == nullptr) return absl::OkStatus();
    EmbeddingBackwardArgs<float> args;
    args.tokens = a_.tokens;
    args.dy = dinput;
    args.dtable = MatrixView(args_.gradients, parameters_.embedding);
    args.accumulate = parameters_.output_weight == parameters_.embedding;
    return backend_.EmbeddingBackward(args);
  }

  const PassContext& context_;
  const Model& model_;
  const ModelParameters& parameters_;
  const float* const weights_;
  Activations& a_;
  Backend& backend_;
  const GradientArgs& args_;
};

}  // namespace

absl::Status RunBackward(const PassContext& context, const GradientArgs& args) {
  return BackwardPass(context, args).Run();
}

Matrix<float> FeatureGradient(const Activations& activations) {
  const LayerActivations& first = activations.layers.front();
  return first.block_input ? first.dblock_input : first.dx;
}

}  // namespace recurve
