#include "engine/model/initialize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "absl/types/span.h"
#include "engine/model/config.h"
#include "kernels/random.h"

namespace recurve {
namespace {

// Natural logarithm by arithmetic alone: libm's last bit is not the same on
// every machine. ln m = 2 artanh((m - 1) / (m + 1)), m in [sqrt(1/2), sqrt(2)).
double Log(double x) {
  int exponent;
  double m = std::frexp(x, &exponent);
  if (m < std::sqrt(0.5)) {
    m *= 2;
    --exponent;
  }
  const double t = (m - 1) / (m + 1);
  double sum = 0;
  for (int k = 23; k >= 1; k -= 2) sum = sum * t * t + 1.0 / k;
  return 2 * t * sum + exponent * 0.693147180559945309417;
}

// The numbers of one parameter: element i is a function of seed, parameter
// index and i.
class Stream {
 public:
  Stream(uint64_t seed, int64_t parameter_index)
      : key_(StreamKey({.seed = seed,
                        .purpose = RandomPurpose::kInitialize,
                        .layer = static_cast<uint32_t>(parameter_index)})) {}

  // Uniform in [-bound, bound).
  void Uniform(double bound, absl::Span<float> values) const {
    for (size_t i = 0; i < values.size(); i += 4) {
      const RandomBlock block = Block(i / 4, 0);
      for (size_t j = i; j < std::min(i + 4, values.size()); ++j) {
        values[j] = static_cast<float>(
            bound * (2.0 * UniformFloat(block[j - i]) - 1.0));
      }
    }
  }

  // Normal, by Marsaglia's polar method: a pair of elements draws points of
  // the square until one lies in the unit circle.
  void Normal(absl::Span<float> values) const {
    for (size_t i = 0; i < values.size(); i += 2) {
      double u = 0, v = 0, s = 0;
      for (uint32_t attempt = 0; s == 0 || s >= 1; ++attempt) {
        const RandomBlock block = Block(i / 2, attempt);
        u = Symmetric(block[0], block[1]);
        v = Symmetric(block[2], block[3]);
        s = u * u + v * v;
      }
      const double factor = std::sqrt(-2 * Log(s) / s);
      values[i] = static_cast<float>(u * factor);
      if (i + 1 < values.size()) values[i + 1] = static_cast<float>(v * factor);
    }
  }

 private:
  RandomBlock Block(uint64_t index, uint32_t attempt) const {
    return Philox({static_cast<uint32_t>(index),
                   static_cast<uint32_t>(index >> 32), attempt, 0},
                  key_);
  }
  // In [-1, 1), 53 bits.
  static double Symmetric(uint32_t high, uint32_t low) {
    const uint64_t bits = (uint64_t{high} << 32 | low) >> 11;
    return static_cast<double>(bits) * 0x1p-52 - 1.0;
  }

  std::array<uint32_t, 2> key_;
};

// Fills the parameters of a model; all are zero at first.
class Initializer {
 public:
  Initializer(const Model& model, uint64_t seed, std::vector<float>& buffer)
      : model_(model), seed_(seed), buffer_(buffer) {}

  void Run() {
    if (Has("embedding.weight")) {
      Draw("embedding.weight").Normal(Values("embedding.weight"));
    }
    for (const Layer& layer : model_.layers()) {
      if (layer.index == 0) InputToHidden(layer.block);
      layer_ = &layer;
      if (const auto* sru = std::get_if<SruLayer>(&layer.cell)) {
        Sru(*sru, model_.config().blocks(layer.block).sru());
      } else {
        Qrnn(std::get<QrnnLayer>(layer.cell));
      }
    }
    Output();
  }

 private:
  bool Has(absl::string_view name) const {
    return model_.parameters().Find(name) != nullptr;
  }
  const Parameter& Find(absl::string_view name) const {
    return *model_.parameters().Find(name);
  }
  absl::Span<float> Values(absl::string_view name) {
    const Parameter& parameter = Find(name);
    return absl::MakeSpan(buffer_).subspan(parameter.offset, parameter.count());
  }
  Stream Draw(absl::string_view name) const {
    const Parameter* first = model_.parameters().parameters().data();
    return Stream(seed_, &Find(name) - first);
  }
  void Uniform(absl::string_view name, double bound) {
    Draw(name).Uniform(bound, Values(name));
  }
  void Fill(absl::string_view name, float value) {
    absl::Span<float> values = Values(name);
    std::fill(values.begin(), values.end(), value);
  }
  // A parameter of the layer at hand.
  std::string Name(absl::string_view field) const {
    return LayerParameterName(layer_->block, layer_->index, field);
  }

  // torch.nn.Linear: weight and bias uniform by the number of inputs.
  void Linear(absl::string_view weight, absl::string_view bias,
              int64_t inputs) {
    const double bound = 1 / std::sqrt(static_cast<double>(inputs));
    if (Has(weight)) Uniform(weight, bound);
    if (Has(bias)) Uniform(bias, bound);
  }

  void InputToHidden(int64_t block) {
    const std::string name =
        "blocks." + std::to_string(block) + ".input_to_hidden.weight";
    if (Has(name)) Linear(name, "", Find(name).cols);
  }

  void Output() {
    if (!model_.config().output().has_linear()) return;
    Linear("output.weight", "output.bias", model_.hidden_channels());
  }

  void Qrnn(const QrnnLayer& layer) {
    Linear(Name("projection"), Name("bias"),
           layer.shape.window * layer.shape.input_size);
  }

  void Sru(const SruLayer& layer, const v1::SruConfig& config) {
    const int64_t channels = layer.shape.channels();
    const double highway_bias = config.highway_bias();
    absl::Span<float> reset_bias = Values(Name("bias")).subspan(channels);
    std::fill(reset_bias.begin(), reset_bias.end(), config.highway_bias());
    const bool rescaled = layer.rescale && layer.shape.skip != SruSkip::kNone;
    const double scale =
        rescaled ? std::sqrt(1 + 2 * std::exp(highway_bias)) : 1.0;
    Fill(Name("scale_x"), static_cast<float>(scale));
    if (layer.shape.layer_norm != NormPlace::kNone) {
      Fill(Name("layer_norm.weight"), 1.0f);
    }
    if (!layer.frozen_v) Uniform(Name("weight_c"), WeightCBound(config));

    if (config.custom_m() != v1::SruConfig::CUSTOM_TRANSFORM_NONE) {
      CustomTransform(layer.shape);
    } else if (config.library() == v1::SruConfig::SRU_3_DEV) {
      Xavier();
    } else {
      Projection(layer, scale);
    }
  }

  static double WeightCBound(const v1::SruConfig& config) {
    if (config.has_weight_c_init()) return config.weight_c_init();
    return config.library() == v1::SruConfig::SRU_3_DEV ? 1.0 : std::sqrt(1.5);
  }

  // Multiplies the columns of one gate group, in every direction.
  void ScaleGroup(const SruShape& shape, int64_t group, double factor) {
    const Matrix<float> weight = View(buffer_.data(), Find(Name("projection")));
    const int64_t h = shape.hidden_size;
    for (int64_t r = 0; r < weight.rows; ++r) {
      for (int64_t d = 0; d < shape.num_directions; ++d) {
        float* group_row =
            weight.row(r) + (d * shape.gate_groups() + group) * h;
        for (int64_t j = 0; j < h; ++j) {
          group_row[j] = static_cast<float>(group_row[j] * factor);
        }
      }
    }
  }

  // The bias covers u's groups alone, v has none.
  void CustomTransform(const SruShape& shape) {
    Linear(Name("projection"), Name("projection_bias"), shape.input_size);
    if (!shape.has_step_coefficients) return;
    absl::Span<float> bias = Values(Name("projection_bias"));
    const int64_t groups = shape.gate_groups();
    for (int64_t d = 0; d < shape.num_directions; ++d) {
      const auto v =
          bias.begin() + (d * groups + groups - 2) * shape.hidden_size;
      std::fill(v, v + 2 * shape.hidden_size, 0.0f);
    }
  }

  // SRU 3.0-dev.
  void Xavier() {
    for (const char* field : {"projection_in", "projection"}) {
      if (!Has(Name(field))) continue;
      const Parameter& parameter = Find(Name(field));
      Uniform(parameter.name,
              std::sqrt(6.0 /
                        static_cast<double>(parameter.rows + parameter.cols)));
    }
  }

  // SRU 2: variance 1 / rows, then one factor a gate group.
  void Projection(const SruLayer& layer, double scale) {
    const SruShape& shape = layer.shape;
    for (const char* field : {"projection_in", "projection"}) {
      if (!Has(Name(field))) continue;
      const double rows = static_cast<double>(Find(Name(field)).rows);
      Uniform(Name(field), std::sqrt(3.0 / rows));
    }
    const double all = std::sqrt(1.0 - layer.rnn_dropout) *
                       (shape.layer_norm == NormPlace::kNone ? 1.0 : 0.1);
    const double gate = layer.frozen_v ? 1.0 : std::sqrt(0.5);
    ScaleGroup(shape, 0, all * std::sqrt(1.0 - layer.dropout));
    ScaleGroup(shape, 1, all * gate);
    ScaleGroup(shape, 2, all * gate);
    if (shape.skip == SruSkip::kTransform) ScaleGroup(shape, 3, all * scale);
  }

  const Model& model_;
  const uint64_t seed_;
  std::vector<float>& buffer_;
  const Layer* layer_ = nullptr;
};

}  // namespace

std::vector<float> InitializeParameters(const Model& model, uint64_t seed) {
  std::vector<float> buffer(model.parameters().buffer_size(), 0.0f);
  Initializer(model, seed, buffer).Run();
  return buffer;
}

}  // namespace recurve
