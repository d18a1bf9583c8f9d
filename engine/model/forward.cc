#include <variant>
#include <vector>

#include "engine/model/output.h"
#include "engine/model/passes.h"
#include "kernels/status.h"

namespace recurve {
namespace {

class ForwardPass {
 public:
  explicit ForwardPass(const PassContext& context)
      : context_(context),
        model_(context.model),
        parameters_(context.parameters),
        weights_(context.weights),
        a_(context.activations),
        backend_(context.backend) {}

  absl::Status Run() {
    RETURN_IF_ERROR(Input());
    for (size_t l = 0; l < a_.layers.size(); ++l) RETURN_IF_ERROR(Layer(l));
    if (model_.pools()) RETURN_IF_ERROR(Pool());
    return Output();
  }

 private:
  absl::Status Input() {
    if (parameters_.embedding != nullptr) {
      EmbeddingForwardArgs<float> args;
      args.tokens = a_.tokens;
      args.table = MatrixView(weights_, parameters_.embedding);
      args.y = a_.input;
      RETURN_IF_ERROR(backend_.EmbeddingForward(args));
    }
    return ApplyMask(a_.input, a_.input_mask);
  }

  absl::Status ApplyMask(Matrix<float> rows, Matrix<float> mask) {
    return mask ? backend_.Multiply(rows, mask) : absl::OkStatus();
  }

  absl::Status Layer(size_t l) {
    const LayerActivations& layer = a_.layers[l];
    if (layer.block_input) {
      LinearForwardArgs<float> args;
      args.x = layer.block_input;
      args.weight = MatrixView(weights_, parameters_.layers[l].input_to_hidden);
      args.y = layer.x;
      RETURN_IF_ERROR(backend_.LinearForward(args));
    }
    return std::visit([&](const auto& cell) { return Cell(layer, cell); },
                      layer.cell);
  }

  absl::Status Cell(const LayerActivations&, const SruActivations& sru) {
    return backend_.SruForward(sru.args.forward);
  }

  absl::Status Cell(const LayerActivations& layer,
                    const QrnnActivations& qrnn) {
    RETURN_IF_ERROR(backend_.QrnnForward(qrnn.args.forward));
    return ApplyMask(layer.y, qrnn.dropout_mask);
  }

  absl::Status Pool() {
    PoolArgs<float> args = a_.pool;
    args.x = a_.hidden();
    args.y = a_.pooled;
    return backend_.PoolForward(args);
  }

  absl::Status Output() {
    if (parameters_.output_weight == nullptr) return absl::OkStatus();
    RETURN_IF_ERROR(ApplyMask(a_.features(), a_.output_mask));
    return a_.output ? ComputeOutput(context_, 0, a_.output) : absl::OkStatus();
  }

  const PassContext& context_;
  const Model& model_;
  const ModelParameters& parameters_;
  const float* const weights_;
  const Activations& a_;
  Backend& backend_;
};

void Bind(const float* weights, const LayerParameters& parameters,
          SruActivations& sru) {
  sru.args.forward.weights = SruViews(weights, parameters);
}

void Bind(const float* weights, const LayerParameters& parameters,
          QrnnActivations& qrnn) {
  qrnn.args.forward.weights = QrnnViews(weights, parameters);
}

}  // namespace

void BindWeights(const PassContext& context) {
  std::vector<LayerActivations>& layers = context.activations.layers;
  for (size_t l = 0; l < layers.size(); ++l) {
    std::visit(
        [&](auto& cell) {
          Bind(context.weights, context.parameters.layers[l], cell);
          if (context.packed.empty()) return;
          cell.args.forward.weights.packed = context.packed[l];
        },
        layers[l].cell);
  }
}

absl::Status RunForward(const PassContext& context) {
  return ForwardPass(context).Run();
}

}  // namespace recurve
