#include "engine/model/model.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/finite.h"
#include "engine/model/config.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// What is known of the model so far, from the input on.
struct Plan {
  ParameterLayout parameters;
  std::vector<Layer> layers;
  int64_t state_size = 0;
  int64_t width = 0;  // columns of the rows that the next part takes
};

void AddInput(const v1::Input& input, Plan& plan) {
  if (!input.has_token_embedding()) {
    plan.width = input.features().size();
    return;
  }
  const v1::TokenEmbedding& embedding = input.token_embedding();
  plan.width = embedding.embedding_size();
  plan.parameters.Add("embedding.weight", embedding.vocabulary_size(),
                      embedding.embedding_size());
}

// Appends a layer, whose cell is set and whose names are not, and its state.
void AddLayer(Layer layer, Plan& plan) {
  layer.c_offset = plan.state_size;
  plan.state_size += layer.channels();
  const auto* qrnn = std::get_if<QrnnLayer>(&layer.cell);
  if (qrnn && qrnn->shape.window == 2 && qrnn->shape.num_directions == 1) {
    layer.x_previous_offset = plan.state_size;
    plan.state_size += layer.input_size();
  }
  plan.width = layer.channels();
  plan.layers.push_back(std::move(layer));
}

// SRU 2 uses a projection only where it is smaller than both sides.
int64_t ProjectionSize(const v1::SruConfig& sru, int64_t layer, int64_t input,
                       int64_t channels) {
  const int count = sru.projection_size_size();
  if (count == 0) return 0;
  const int64_t size = sru.projection_size(count == 1 ? 0 : layer);
  if (sru.library() == v1::SruConfig::SRU_3_DEV) return size;
  return size < input && size < channels ? size : 0;
}

NormPlace PlaceOfNorm(const v1::SruConfig& sru) {
  if (!sru.layer_norm()) return NormPlace::kNone;
  return sru.normalize_after() ? NormPlace::kAfter : NormPlace::kBefore;
}

SruShape ShapeOf(const v1::SruConfig& sru, int64_t layer, int64_t input) {
  SruShape shape;
  shape.input_size = input;
  shape.hidden_size = sru.hidden_size();
  shape.num_directions = sru.bidirectional() ? 2 : 1;
  shape.projection_size = ProjectionSize(sru, layer, input, shape.channels());
  const bool skip = !sru.has_has_skip_term() || sru.has_skip_term();
  shape.skip = !skip                       ? SruSkip::kNone
               : input == shape.channels() ? SruSkip::kInput
                                           : SruSkip::kTransform;
  shape.use_tanh = sru.use_tanh();
  shape.layer_norm = PlaceOfNorm(sru);
  shape.has_step_coefficients =
      sru.custom_m() == v1::SruConfig::CUSTOM_TRANSFORM_UV;
  return shape;
}

void AddSruParameters(const Layer& layer, bool custom, Plan& plan) {
  const SruLayer& sru = std::get<SruLayer>(layer.cell);
  const SruShape& shape = sru.shape;
  const auto add = [&](absl::string_view field, int64_t rows, int64_t cols,
                       bool trainable = true) {
    plan.parameters.Add(LayerParameterName(layer.block, layer.index, field),
                        rows, cols, trainable);
  };
  const int64_t p = shape.projection_size;
  if (p > 0) add("projection_in", shape.input_size, p);
  add("projection", p > 0 ? p : shape.input_size, shape.projected_cols());
  if (custom) add("projection_bias", 1, shape.projected_cols());
  add("weight_c", 2, shape.channels(), !sru.frozen_v);
  add("bias", 2, shape.channels());
  add("scale_x", 1, 1, /*trainable=*/false);
  if (shape.layer_norm == NormPlace::kNone) return;
  const bool before = shape.layer_norm == NormPlace::kBefore;
  const int64_t norm_size = before ? shape.input_size : shape.channels();
  add("layer_norm.weight", 1, norm_size);
  add("layer_norm.bias", 1, norm_size);
}

void AddSruBlock(int64_t b, const v1::SruConfig& sru, Plan& plan) {
  const int64_t channels = sru.hidden_size() * (sru.bidirectional() ? 2 : 1);
  if (sru.proj_input_to_hidden_first() && plan.width != channels) {
    plan.parameters.Add(absl::StrCat("blocks.", b, ".input_to_hidden.weight"),
                        channels, plan.width);
    plan.width = channels;
  }
  const int64_t count = sru.has_num_layers() ? sru.num_layers() : 2;
  for (int64_t l = 0; l < count; ++l) {
    SruLayer cell;
    cell.shape = ShapeOf(sru, l, plan.width);
    cell.dropout = l + 1 < count ? sru.dropout() : 0;
    cell.rnn_dropout = sru.rnn_dropout();
    cell.rescale = sru.rescale();
    cell.frozen_v = sru.v1();
    Layer layer{.block = b, .index = l, .cell = cell};
    AddSruParameters(
        layer, sru.custom_m() != v1::SruConfig::CUSTOM_TRANSFORM_NONE, plan);
    AddLayer(std::move(layer), plan);
  }
}

// The layers of a block one by one, whichever way they are written.
std::vector<v1::QrnnLayerConfig> QrnnLayers(const v1::QrnnConfig& qrnn) {
  std::vector<v1::QrnnLayerConfig> layers(qrnn.layers().begin(),
                                          qrnn.layers().end());
  if (layers.empty()) {
    v1::QrnnLayerConfig layer;
    if (qrnn.has_window()) layer.set_window(qrnn.window());
    if (qrnn.has_output_gate()) layer.set_output_gate(qrnn.output_gate());
    layer.set_zoneout(qrnn.zoneout());
    layer.set_save_prev_x(qrnn.save_prev_x());
    layers.assign(qrnn.has_num_layers() ? qrnn.num_layers() : 1, layer);
  }
  for (v1::QrnnLayerConfig& layer : layers) {
    if (layer.hidden_size() == 0) layer.set_hidden_size(qrnn.hidden_size());
  }
  return layers;
}

QrnnShape ShapeOf(const v1::QrnnLayerConfig& layer, bool bidirectional,
                  int64_t input) {
  QrnnShape shape;
  shape.input_size = input;
  shape.hidden_size = layer.hidden_size();
  shape.num_directions = bidirectional ? 2 : 1;
  shape.window = layer.has_window() ? layer.window() : 1;
  shape.output_gate = !layer.has_output_gate() || layer.output_gate();
  shape.zoneout = layer.zoneout();
  return shape;
}

void AddQrnnBlock(int64_t b, const v1::QrnnConfig& qrnn, Plan& plan) {
  const std::vector<v1::QrnnLayerConfig> configs = QrnnLayers(qrnn);
  const int64_t count = static_cast<int64_t>(configs.size());
  for (int64_t l = 0; l < count; ++l) {
    QrnnLayer cell;
    cell.shape = ShapeOf(configs[l], qrnn.bidirectional(), plan.width);
    cell.dropout = l + 1 < count ? qrnn.dropout() : 0;
    cell.save_prev_x = configs[l].save_prev_x();
    const QrnnShape& shape = cell.shape;
    plan.parameters.Add(LayerParameterName(b, l, "projection"),
                        shape.window * shape.input_size,
                        shape.projected_cols());
    plan.parameters.Add(LayerParameterName(b, l, "bias"), 1,
                        shape.projected_cols());
    AddLayer(Layer{.block = b, .index = l, .cell = cell}, plan);
  }
}

absl::Status AddBlocks(const v1::ModelConfig& config, Plan& plan) {
  for (int b = 0; b < config.blocks_size(); ++b) {
    const v1::Block& block = config.blocks(b);
    if (block.has_sru()) {
      AddSruBlock(b, block.sru(), plan);
    } else {
      AddQrnnBlock(b, block.qrnn(), plan);
    }
    if (static_cast<int64_t>(plan.layers.size()) > kMaxLayers) {
      return absl::InvalidArgumentError(absl::StrCat(
          "blocks[", b, "]: with it the model has ", plan.layers.size(),
          " layers; the limit is ", kMaxLayers));
    }
  }
  return absl::OkStatus();
}

absl::Status AddOutput(const v1::ModelConfig& config, Plan& plan) {
  if (!config.output().has_linear()) return absl::OkStatus();
  const v1::LinearOutput& linear = config.output().linear();
  if (!linear.tied()) {
    plan.parameters.Add("output.weight", linear.size(), plan.width);
  } else if (config.input().token_embedding().embedding_size() != plan.width) {
    return absl::InvalidArgumentError(absl::StrCat(
        "output.linear.tied: the embedding_size ",
        config.input().token_embedding().embedding_size(), " is not ",
        plan.width, ", the channels of the last block"));
  }
  if (!linear.has_bias() || linear.bias()) {
    plan.parameters.Add("output.bias", 1, linear.size());
  }
  return absl::OkStatus();
}

absl::Status CheckTokens(const SequenceBatch& batch, int64_t vocabulary) {
  if (!batch.features.empty()) {
    return absl::InvalidArgumentError(
        "features: the model takes tokens, not features");
  }
  const int64_t count = static_cast<int64_t>(batch.tokens.size());
  if (count != batch.num_rows()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tokens: ", count, " of them, but cu_seqlens ends at ",
                     batch.num_rows()));
  }
  for (int64_t n = 0; n < count; ++n) {
    if (batch.tokens[n] >= 0 && batch.tokens[n] < vocabulary) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "tokens[", n, "] (", RowPlace(batch, n), "): ", batch.tokens[n],
        " is not in [0, ", vocabulary, ")"));
  }
  return absl::OkStatus();
}

absl::Status CheckFeatures(const SequenceBatch& batch, int64_t size) {
  if (!batch.tokens.empty()) {
    return absl::InvalidArgumentError(
        "tokens: the model takes features, not tokens");
  }
  const int64_t count = static_cast<int64_t>(batch.features.size());
  if (count % size != 0 || count / size != batch.num_rows()) {
    return absl::InvalidArgumentError(
        absl::StrCat("features: ", count, " numbers, but cu_seqlens ends at ",
                     batch.num_rows(), " and each row has ", size));
  }
  const auto bad = FirstNotFinite(batch.features);
  if (!bad.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("features (", RowPlace(batch, *bad / size), ", column ",
                   *bad % size, "): ", batch.features[*bad], " is not finite"));
}

absl::Status CheckClasses(absl::Span<const int32_t> classes, int64_t rows,
                          int64_t limit, int32_t ignore_index) {
  if (static_cast<int64_t>(classes.size()) != rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "targets.classes: ", classes.size(), " of them for ", rows, " rows"));
  }
  for (int64_t r = 0; r < rows; ++r) {
    if (classes[r] == ignore_index) continue;
    if (classes[r] >= 0 && classes[r] < limit) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "targets.classes[", r, "]: ", classes[r], " is neither in [0, ", limit,
        ") nor the ignored ", ignore_index));
  }
  return absl::OkStatus();
}

absl::Status CheckValues(absl::Span<const float> values, int64_t rows,
                         int64_t cols) {
  if (static_cast<int64_t>(values.size()) != rows * cols) {
    return absl::InvalidArgumentError(
        absl::StrCat("targets.values: ", values.size(), " of them for ", rows,
                     " rows of ", cols));
  }
  const auto bad = FirstNotFinite(values);
  if (!bad.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("targets.values (row ", *bad / cols, ", column ",
                   *bad % cols, "): ", values[*bad], " is not finite"));
}

absl::Status CheckWeights(absl::Span<const float> weights, int64_t rows) {
  if (weights.empty()) return absl::OkStatus();
  if (static_cast<int64_t>(weights.size()) != rows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "targets.weights: ", weights.size(), " of them for ", rows, " rows"));
  }
  for (int64_t r = 0; r < rows; ++r) {
    if (std::isfinite(weights[r]) && weights[r] >= 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("targets.weights[", r, "]: ", weights[r],
                     " is not finite and at least 0"));
  }
  return absl::OkStatus();
}

int64_t Even(int64_t size) { return (size + 1) / 2 * 2; }

// Rows of `from` columns, cut off at `to` or filled up with zeros.
std::vector<float> Resized(std::vector<float> rows, size_t from, size_t to) {
  if (from == to) return rows;
  const size_t count = rows.size() / from;
  std::vector<float> resized(count * to);
  for (size_t r = 0; r < count; ++r) {
    std::copy_n(rows.begin() + r * from, std::min(from, to),
                resized.begin() + r * to);
  }
  return resized;
}

}  // namespace

int64_t Layer::input_size() const {
  return std::visit([](const auto& c) { return c.shape.input_size; }, cell);
}

int64_t Layer::channels() const {
  return std::visit([](const auto& c) { return c.shape.channels(); }, cell);
}

ProjectionShape Layer::projection() const {
  return std::visit([](const auto& c) { return c.shape.projection(); }, cell);
}

absl::StatusOr<std::shared_ptr<const Model>> Model::Create(
    const v1::ModelConfig& config) {
  RETURN_IF_ERROR(CheckFields(config));
  Plan plan;
  AddInput(config.input(), plan);
  RETURN_IF_ERROR(AddBlocks(config, plan));
  RETURN_IF_ERROR(AddOutput(config, plan));
  if (plan.parameters.parameter_count() > kMaxParameters) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model has ", plan.parameters.parameter_count(),
                     " parameters; the limit is ", kMaxParameters));
  }
  std::shared_ptr<Model> model(new Model);
  model->config_ = config;
  model->parameters_ = std::move(plan.parameters);
  model->layers_ = std::move(plan.layers);
  model->state_size_ = plan.state_size;
  model->LayOutCarry();
  return model;
}

void Model::LayOutCarry() {
  carry_size_ = state_size_;
  if (!CutsInTime() || !pools() || pool_kind() == PoolKind::kLast) return;
  constexpr int64_t kCountWords = 2;
  const int64_t value_words = pool_kind() == PoolKind::kMean ? 2 : 1;
  pool_carry_offset_ = Even(state_size_);
  carry_size_ =
      pool_carry_offset_ + kCountWords + Even(value_words * hidden_channels());
}

bool Model::takes_tokens() const {
  return config_.input().has_token_embedding();
}

int64_t Model::vocabulary_size() const {
  return config_.input().token_embedding().vocabulary_size();
}

int64_t Model::feature_size() const {
  return config_.input().features().size();
}

int64_t Model::hidden_channels() const { return layers_.back().channels(); }

int64_t Model::output_size() const {
  const v1::Output& output = config_.output();
  return output.has_linear() ? output.linear().size() : hidden_channels();
}

bool Model::pools() const {
  return config_.output().pooling() != v1::Output::POOLING_NONE;
}

PoolKind Model::pool_kind() const {
  switch (config_.output().pooling()) {
    case v1::Output::POOLING_MEAN:
      return PoolKind::kMean;
    case v1::Output::POOLING_MAX:
      return PoolKind::kMax;
    default:
      return PoolKind::kLast;
  }
}

bool Model::bidirectional() const {
  return std::any_of(layers_.begin(), layers_.end(), [](const Layer& layer) {
    return std::visit([](const auto& c) { return c.shape.num_directions == 2; },
                      layer.cell);
  });
}

int32_t Model::ignore_index() const {
  return config_.loss().has_ignore_index() ? config_.loss().ignore_index() : -1;
}

void Model::BeginCall(absl::Span<float> states, int64_t num_sequences) const {
  if (states.empty()) return;
  const int64_t size = static_cast<int64_t>(states.size()) / num_sequences;
  const auto clear = [&](int64_t offset, int64_t count) {
    for (int64_t b = 0; b < num_sequences; ++b) {
      std::fill_n(states.begin() + b * size + offset, count, 0.0f);
    }
  };
  for (const Layer& layer : layers_) {
    if (layer.x_previous_offset < 0) continue;
    if (std::get<QrnnLayer>(layer.cell).save_prev_x) continue;
    clear(layer.x_previous_offset, layer.input_size());
  }
  clear(state_size_, size - state_size_);
}

std::vector<float> Model::CarriesOf(std::vector<float> states) const {
  return Resized(std::move(states), state_size_, carry_size_);
}

std::vector<float> Model::StatesOf(std::vector<float> carries) const {
  return Resized(std::move(carries), carry_size_, state_size_);
}

absl::Status Model::CheckBatch(const SequenceBatch& batch,
                               bool allow_empty_sequences) const {
  RETURN_IF_ERROR(CheckOffsets(batch, allow_empty_sequences));
  return takes_tokens() ? CheckTokens(batch, vocabulary_size())
                        : CheckFeatures(batch, feature_size());
}

absl::Status Model::CheckTargets(const SequenceBatch& batch,
                                 const Targets& targets) const {
  const int64_t rows = pools() ? batch.num_sequences() : batch.num_rows();
  RETURN_IF_ERROR(CheckWeights(targets.weights, rows));
  switch (config_.loss().kind()) {
    case v1::Loss::CROSS_ENTROPY:
      if (!targets.values.empty()) {
        return absl::InvalidArgumentError(
            "targets.values: the loss is CROSS_ENTROPY, which takes classes");
      }
      return CheckClasses(targets.classes, rows, output_size(), ignore_index());
    case v1::Loss::MEAN_SQUARED_ERROR:
      if (!targets.classes.empty()) {
        return absl::InvalidArgumentError(
            "targets.classes: the loss is MEAN_SQUARED_ERROR, which takes "
            "values");
      }
      return CheckValues(targets.values, rows, output_size());
    default:
      return absl::InvalidArgumentError("targets: the model has no loss");
  }
}

}  // namespace recurve
