#include "engine/model/library_keys.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/model/config.h"

namespace recurve {
namespace {

// The same order on both sides.
ElementMap Same(int64_t count) {
  return {.size = {1, 1, 1, count},
          .library_stride = {0, 0, 0, 1},
          .our_stride = {0, 0, 0, 1}};
}

// Library [rows, cols], ours [cols, rows].
ElementMap Transposed(int64_t rows, int64_t cols) {
  return {.size = {1, 1, rows, cols},
          .library_stride = {0, 0, cols, 1},
          .our_stride = {0, 0, 1, rows}};
}

// Gate groups [first, first + count) of an SRU projection. Columns are
// (d * H + j) * count + m in the library and (d * K + first + m) * H + j here.
struct GateColumns {
  int64_t directions;  // D
  int64_t hidden;      // H
  int64_t groups;      // K
  int64_t first;
  int64_t count;

  int64_t library_cols() const { return directions * hidden * count; }
};

GateColumns UColumns(const SruShape& shape) {
  const int64_t groups = shape.gate_groups();
  return {shape.num_directions, shape.hidden_size, groups, 0,
          groups - 2 * shape.has_step_coefficients};
}

GateColumns VColumns(const SruShape& shape) {
  const int64_t groups = shape.gate_groups();
  return {shape.num_directions, shape.hidden_size, groups, groups - 2, 2};
}

// Library [rows, columns], ours too.
ElementMap Gates(int64_t rows, const GateColumns& columns) {
  const auto [d, h, k, first, m] = columns;
  return {.size = {rows, d, h, m},
          .library_stride = {d * h * m, h * m, m, 1},
          .our_stride = {d * k * h, k * h, 1, h},
          .our_offset = first * h};
}

// Library [columns, rows].
ElementMap TransposedGates(int64_t rows, const GateColumns& columns) {
  const auto [d, h, k, first, m] = columns;
  return {.size = {rows, d, h, m},
          .library_stride = {1, h * m * rows, m * rows, rows},
          .our_stride = {d * k * h, k * h, 1, h},
          .our_offset = first * h};
}

// weight_c where custom transforms give per-step coefficients: interleaved
// [unit][gate] in the library, [gate][unit] here.
ElementMap InterleavedPair(int64_t channels) {
  return {.size = {1, 1, channels, 2},
          .library_stride = {0, 0, 2, 1},
          .our_stride = {0, 0, 1, channels}};
}

// Adds tensors of one layer, whose keys begin with `prefix`.
class LayerTensors {
 public:
  LayerTensors(const Model& model, const Layer& layer, std::string prefix,
               std::vector<LibraryTensor>& tensors)
      : model_(model),
        layer_(layer),
        prefix_(std::move(prefix)),
        tensors_(tensors) {}

  void Add(absl::string_view key, std::vector<int64_t> shape,
           absl::string_view field, const ElementMap& map) {
    const std::string name =
        LayerParameterName(layer_.block, layer_.index, field);
    tensors_.push_back({absl::StrCat(prefix_, key), std::move(shape),
                        model_.parameters().Find(name), map});
  }
  void AddVector(absl::string_view key, int64_t size, absl::string_view field) {
    Add(key, {size}, field, Same(size));
  }

 private:
  const Model& model_;
  const Layer& layer_;
  const std::string prefix_;
  std::vector<LibraryTensor>& tensors_;
};

void AddSru2Projection(const SruShape& shape, LayerTensors& layer) {
  const int64_t p = shape.projection_size;
  const int64_t rows = p > 0 ? p : shape.input_size;
  const GateColumns columns = UColumns(shape);
  if (p > 0) {
    layer.Add("weight_proj", {shape.input_size, p}, "projection_in",
              Same(shape.input_size * p));
  }
  layer.Add("weight", {rows, columns.library_cols()}, "projection",
            Gates(rows, columns));
}

void AddSru3Projection(const SruShape& shape, LayerTensors& layer) {
  const int64_t p = shape.projection_size;
  const int64_t rows = p > 0 ? p : shape.input_size;
  const GateColumns columns = UColumns(shape);
  if (p > 0) {
    layer.Add("transform_module.0.weight", {p, shape.input_size},
              "projection_in", Transposed(p, shape.input_size));
  }
  layer.Add(p > 0 ? "transform_module.1.weight" : "transform_module.weight",
            {columns.library_cols(), rows}, "projection",
            TransposedGates(rows, columns));
}

// nn.Linear modules: `u` with a bias and, for step coefficients, `v` without.
void AddCustomTransform(const SruShape& shape, LayerTensors& layer) {
  const int64_t rows = shape.input_size;
  const GateColumns u = UColumns(shape);
  const std::string module =
      shape.has_step_coefficients ? "custom_m.u." : "custom_m.";
  layer.Add(module + "weight", {u.library_cols(), rows}, "projection",
            TransposedGates(rows, u));
  layer.Add(module + "bias", {u.library_cols()}, "projection_bias",
            Gates(1, u));
  if (!shape.has_step_coefficients) return;
  const GateColumns v = VColumns(shape);
  layer.Add("custom_m.v.weight", {v.library_cols(), rows}, "projection",
            TransposedGates(rows, v));
}

void AddSru(const SruShape& shape, bool custom, KeyStyle style,
            LayerTensors& layer) {
  if (custom) {
    AddCustomTransform(shape, layer);
  } else if (style == KeyStyle::kSru3Dev) {
    AddSru3Projection(shape, layer);
  } else {
    AddSru2Projection(shape, layer);
  }
  const int64_t channels = shape.channels();
  layer.Add("weight_c", {2 * channels}, "weight_c",
            shape.has_step_coefficients ? InterleavedPair(channels)
                                        : Same(2 * channels));
  layer.AddVector("bias", 2 * channels, "bias");
  layer.AddVector("scale_x", 1, "scale_x");
  if (shape.layer_norm == NormPlace::kNone) return;
  const int64_t norm_size =
      shape.layer_norm == NormPlace::kBefore ? shape.input_size : channels;
  layer.AddVector("layer_norm.weight", norm_size, "layer_norm.weight");
  layer.AddVector("layer_norm.bias", norm_size, "layer_norm.bias");
}

// Library [G*H, window*I] per direction, ours [window*I, D*G*H].
void AddQrnn(const QrnnShape& shape, KeyStyle style, LayerTensors& layer) {
  const bool weight_drop = style == KeyStyle::kQrnnWeightDrop ||
                           style == KeyStyle::kLayersWeightDrop;
  const std::string module = weight_drop ? "linear.module." : "linear.";
  const std::string weight = weight_drop ? "weight_raw" : "weight";
  const int64_t rows = shape.gate_groups() * shape.hidden_size;
  const int64_t cols = shape.window * shape.input_size;
  for (int64_t d = 0; d < shape.num_directions; ++d) {
    const std::string suffix = d == 0 ? "" : "_reverse";
    ElementMap matrix = Transposed(rows, cols);
    matrix.our_stride[3] = shape.projected_cols();
    matrix.our_offset = d * rows;
    layer.Add(absl::StrCat(module, weight, suffix), {rows, cols}, "projection",
              matrix);
    ElementMap bias = Same(rows);
    bias.our_offset = d * rows;
    layer.Add(absl::StrCat(module, "bias", suffix), {rows}, "bias", bias);
  }
}

absl::string_view LayerList(KeyStyle style) {
  switch (style) {
    case KeyStyle::kSru2:
    case KeyStyle::kSru3Dev:
      return "rnn_lst.";
    case KeyStyle::kQrnn:
    case KeyStyle::kQrnnWeightDrop:
      return "layers.";
    case KeyStyle::kLayers:
    case KeyStyle::kLayersWeightDrop:
      return "";
  }
  return "";
}

KeyStyle DefaultStyle(const v1::Block& block) {
  if (block.has_qrnn()) return KeyStyle::kQrnn;
  return block.sru().library() == v1::SruConfig::SRU_3_DEV ? KeyStyle::kSru3Dev
                                                           : KeyStyle::kSru2;
}

// A parameter that stands in the library as it stands here.
LibraryTensor AsItIs(std::string key, const Parameter& parameter, bool vector) {
  LibraryTensor tensor;
  tensor.key = std::move(key);
  tensor.shape = {parameter.cols};
  if (!vector) tensor.shape.insert(tensor.shape.begin(), parameter.rows);
  tensor.parameter = &parameter;
  tensor.map = Same(parameter.count());
  return tensor;
}

void AddOutput(const Model& model, const LibraryNames& names,
               std::vector<LibraryTensor>& tensors) {
  if (!model.config().output().has_linear()) return;
  const bool tied = model.config().output().linear().tied();
  if (!tied || names.tied_weight_repeated) {
    tensors.push_back(AsItIs(
        names.output + "weight",
        *model.parameters().Find(tied ? "embedding.weight" : "output.weight"),
        /*vector=*/false));
  }
  const Parameter* bias = model.parameters().Find("output.bias");
  if (bias == nullptr) return;
  tensors.push_back(AsItIs(names.output + "bias", *bias, /*vector=*/true));
}

// Calls visit(index in the library's tensor, index in our parameter).
template <typename Visit>
void Walk(const ElementMap& map, Visit visit) {
  const auto& l = map.library_stride;
  const auto& o = map.our_stride;
  for (int64_t a = 0; a < map.size[0]; ++a) {
    for (int64_t b = 0; b < map.size[1]; ++b) {
      for (int64_t c = 0; c < map.size[2]; ++c) {
        const int64_t library = a * l[0] + b * l[1] + c * l[2];
        const int64_t ours = map.our_offset + a * o[0] + b * o[1] + c * o[2];
        for (int64_t d = 0; d < map.size[3]; ++d) {
          visit(library + d * l[3], ours + d * o[3]);
        }
      }
    }
  }
}

}  // namespace

LibraryNames DefaultNames(const Model& model) {
  LibraryNames names;
  if (model.takes_tokens()) names.embedding = "embedding.";
  for (const v1::Block& block : model.config().blocks()) {
    names.blocks.push_back({BlockName(block) + ".", DefaultStyle(block)});
  }
  if (model.config().output().has_linear()) names.output = "output.";
  return names;
}

int64_t LibraryTensor::count() const {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

std::vector<LibraryTensor> BlockTensors(const Model& model, int64_t block,
                                        const BlockNames& names) {
  std::vector<LibraryTensor> tensors;
  const std::string input_map =
      absl::StrCat("blocks.", block, ".input_to_hidden.weight");
  if (const Parameter* parameter = model.parameters().Find(input_map)) {
    tensors.push_back(AsItIs(names.prefix + "input_to_hidden.weight",
                             *parameter, /*vector=*/false));
  }
  const v1::Block& config = model.config().blocks(static_cast<int>(block));
  const bool custom =
      config.sru().custom_m() != v1::SruConfig::CUSTOM_TRANSFORM_NONE;
  for (const Layer& layer : model.layers()) {
    if (layer.block != block) continue;
    LayerTensors adder(
        model, layer,
        absl::StrCat(names.prefix, LayerList(names.style), layer.index, "."),
        tensors);
    if (const auto* sru = std::get_if<SruLayer>(&layer.cell)) {
      AddSru(sru->shape, custom, names.style, adder);
    } else {
      AddQrnn(std::get<QrnnLayer>(layer.cell).shape, names.style, adder);
    }
  }
  return tensors;
}

std::vector<LibraryTensor> ModelTensors(const Model& model,
                                        const LibraryNames& names) {
  std::vector<LibraryTensor> tensors;
  if (const Parameter* table = model.parameters().Find("embedding.weight")) {
    tensors.push_back(
        AsItIs(names.embedding + "weight", *table, /*vector=*/false));
  }
  for (size_t b = 0; b < names.blocks.size(); ++b) {
    std::vector<LibraryTensor> block =
        BlockTensors(model, static_cast<int64_t>(b), names.blocks[b]);
    std::move(block.begin(), block.end(), std::back_inserter(tensors));
  }
  AddOutput(model, names, tensors);
  return tensors;
}

void ToLibrary(const LibraryTensor& tensor, const float* buffer,
               float* library) {
  const float* ours = buffer + tensor.parameter->offset;
  Walk(tensor.map, [=](int64_t l, int64_t o) { library[l] = ours[o]; });
}

void FromLibrary(const LibraryTensor& tensor, const float* library,
                 float* buffer) {
  float* ours = buffer + tensor.parameter->offset;
  Walk(tensor.map, [=](int64_t l, int64_t o) { ours[o] = library[l]; });
}

}  // namespace recurve
