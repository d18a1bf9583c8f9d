#include "engine/model/masks.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "kernels/random.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// Draws masks of one training pass.
class MaskDrawer {
 public:
  MaskDrawer(const RandomContext& random, const Activations& activations,
             Backend& backend)
      : random_(random), activations_(activations), backend_(backend) {}

  absl::Status Cell(uint32_t layer, const SruLayer& cell,
                    const SruActivations& sru) {
    RETURN_IF_ERROR(Dropout(sru.mask_in, RandomPurpose::kInputDropout, layer,
                            cell.rnn_dropout, /*variational=*/true));
    return Dropout(sru.mask_cell, RandomPurpose::kCellDropout, layer,
                   cell.dropout, /*variational=*/true);
  }

  absl::Status Cell(uint32_t layer, const QrnnLayer& cell,
                    const QrnnActivations& qrnn) {
    // Zoneout's masks are 0 or 1.
    RETURN_IF_ERROR(Draw(qrnn.zoneout_mask, RandomPurpose::kZoneout, layer,
                         1.0f - cell.shape.zoneout, 1.0f,
                         /*variational=*/false));
    return Dropout(qrnn.dropout_mask, RandomPurpose::kDropout, layer,
                   cell.dropout, /*variational=*/false);
  }

  // A pooled row is its sequence's only one: there is no position.
  absl::Status AroundLayers(const Model& model) {
    RETURN_IF_ERROR(Dropout(activations_.input_mask, RandomPurpose::kDropout,
                            kInputDropoutLayer,
                            model.config().input().dropout(),
                            /*variational=*/false));
    return Dropout(activations_.output_mask, RandomPurpose::kDropout,
                   kOutputDropoutLayer, model.config().output().dropout(),
                   /*variational=*/model.pools());
  }

 private:
  absl::Status Dropout(Matrix<float> mask, RandomPurpose purpose,
                       uint32_t layer, float probability, bool variational) {
    const float keep = 1.0f - probability;
    return Draw(mask, purpose, layer, keep, 1.0f / keep, variational);
  }

  absl::Status Draw(Matrix<float> mask, RandomPurpose purpose, uint32_t layer,
                    float keep_probability, float scale, bool variational) {
    if (!mask) return absl::OkStatus();
    MaskArgs args;
    args.key = {.seed = random_.seed,
                .purpose = purpose,
                .step = random_.step,
                .accumulation = random_.accumulation,
                .layer = layer};
    args.keep_probability = keep_probability;
    args.scale = scale;
    args.variational = variational;
    args.layout = activations_.layout();
    args.first_sequence = random_.first_sequence;
    args.positions =
        random_.positions.empty() ? nullptr : activations_.positions;
    args.mask = mask;
    return backend_.FillMask(args);
  }

  const RandomContext& random_;
  const Activations& activations_;
  Backend& backend_;
};

absl::Status Give(const char* name, size_t layer,
                  const std::vector<float>& given, Matrix<float> mask,
                  Backend& backend) {
  const int64_t expected = mask ? mask.rows * mask.cols : 0;
  if (static_cast<int64_t>(given.size()) != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("layer ", layer, ": the ", name, " mask has ",
                     given.size(), " numbers, not ", expected));
  }
  if (expected == 0) return absl::OkStatus();
  return backend.Upload(mask.data, given.data(),
                        expected * static_cast<int64_t>(sizeof(float)));
}

absl::Status GiveLayer(size_t layer, const LayerMasks& given,
                       const LayerActivations& activations, Backend& backend) {
  Matrix<float> cell, input, zoneout, dropout;
  if (const auto* sru = std::get_if<SruActivations>(&activations.cell)) {
    cell = sru->mask_cell;
    input = sru->mask_in;
  } else {
    const auto& qrnn = std::get<QrnnActivations>(activations.cell);
    zoneout = qrnn.zoneout_mask;
    dropout = qrnn.dropout_mask;
  }
  RETURN_IF_ERROR(Give("cell", layer, given.cell, cell, backend));
  RETURN_IF_ERROR(Give("input", layer, given.input, input, backend));
  RETURN_IF_ERROR(Give("zoneout", layer, given.zoneout, zoneout, backend));
  return Give("dropout", layer, given.dropout, dropout, backend);
}

}  // namespace

absl::Status DrawMasks(const Model& model, const RandomContext& random,
                       const Activations& activations, Backend& backend) {
  MaskDrawer drawer(random, activations, backend);
  for (size_t l = 0; l < activations.layers.size(); ++l) {
    const LayerActivations& layer = activations.layers[l];
    if (const auto* sru = std::get_if<SruActivations>(&layer.cell)) {
      RETURN_IF_ERROR(
          drawer.Cell(l, std::get<SruLayer>(model.layers()[l].cell), *sru));
    } else {
      RETURN_IF_ERROR(drawer.Cell(l,
                                  std::get<QrnnLayer>(model.layers()[l].cell),
                                  std::get<QrnnActivations>(layer.cell)));
    }
  }
  return drawer.AroundLayers(model);
}

absl::Status GiveMasks(const Model& model, const RandomContext& random,
                       const std::vector<LayerMasks>& masks,
                       const Activations& activations, Backend& backend) {
  if (masks.size() != activations.layers.size()) {
    return absl::InvalidArgumentError(absl::StrCat("masks of ", masks.size(),
                                                   " layers for a model of ",
                                                   activations.layers.size()));
  }
  for (size_t l = 0; l < masks.size(); ++l) {
    RETURN_IF_ERROR(GiveLayer(l, masks[l], activations.layers[l], backend));
  }
  return MaskDrawer(random, activations, backend).AroundLayers(model);
}

}  // namespace recurve
