#include "tests/golden/case_masks.h"

#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "kernels/status.h"

namespace recurve::golden {
namespace {

// Of one call.
class MaskReader {
 public:
  MaskReader(const PaddedGrid& grid, size_t call, CaseTensors& tensors)
      : grid_(grid), call_(call), tensors_(tensors) {}

  absl::StatusOr<LayerMasks> Read(int64_t index, const SruLayer& layer) {
    LayerMasks masks;
    if (layer.dropout > 0) {
      ASSIGN_OR_RETURN(masks.cell,
                       Variational("mask_c", index, layer.shape.channels()));
    }
    if (layer.rnn_dropout > 0) {
      ASSIGN_OR_RETURN(masks.input,
                       Variational("mask_in", index, layer.shape.input_size));
    }
    return masks;
  }

  absl::StatusOr<LayerMasks> Read(int64_t index, const QrnnLayer& layer) {
    LayerMasks masks;
    if (layer.shape.zoneout > 0) {
      ASSIGN_OR_RETURN(masks.zoneout,
                       Packed("zoneout_mask", index, layer.shape.channels()));
    }
    if (layer.dropout > 0) {
      ASSIGN_OR_RETURN(masks.dropout,
                       Packed("dropout_mask", index, layer.shape.channels()));
    }
    return masks;
  }

 private:
  std::string Name(const std::string& base, int64_t index) const {
    return TensorName(base, call_, absl::StrCat(".", index));
  }

  absl::StatusOr<std::vector<float>> Variational(const std::string& base,
                                                 int64_t index, int64_t cols) {
    return tensors_.Floats(Name(base, index), {grid_.batch_size(), cols});
  }

  absl::StatusOr<std::vector<float>> Packed(const std::string& base,
                                            int64_t index, int64_t cols) {
    ASSIGN_OR_RETURN(
        const std::vector<float> mask,
        tensors_.Floats(Name(base, index),
                        {grid_.length(), grid_.batch_size(), cols}));
    return grid_.Pack(mask, cols);
  }

  const PaddedGrid& grid_;
  const size_t call_;
  CaseTensors& tensors_;
};

}  // namespace

absl::StatusOr<std::vector<LayerMasks>> CaseMasks(const Model& model,
                                                  const PaddedGrid& grid,
                                                  size_t call,
                                                  CaseTensors& tensors) {
  MaskReader reader(grid, call, tensors);
  std::vector<LayerMasks> masks(model.layers().size());
  for (size_t l = 0; l < masks.size(); ++l) {
    ASSIGN_OR_RETURN(
        masks[l],
        std::visit([&](const auto& cell) { return reader.Read(l, cell); },
                   model.layers()[l].cell));
  }
  return masks;
}

}  // namespace recurve::golden
