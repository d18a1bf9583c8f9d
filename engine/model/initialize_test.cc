#include "engine/model/initialize.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/model/config.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

std::shared_ptr<const Model> Make(const std::string& text) {
  const auto config = ParseModelConfig(text);
  EXPECT_TRUE(config.ok()) << config.status();
  auto model = Model::Create(*config);
  EXPECT_TRUE(model.ok()) << model.status();
  return *model;
}

struct Statistics {
  double mean = 0;
  double stddev = 0;
  float lowest = INFINITY;
  float highest = -INFINITY;
};

// Of columns [begin, begin + count) of a parameter.
Statistics Of(const Model& model, const std::vector<float>& buffer,
              const std::string& name, int64_t begin = 0, int64_t count = -1) {
  const Parameter& parameter = *model.parameters().Find(name);
  if (count < 0) count = parameter.cols;
  const auto view = View(buffer.data(), parameter).columns(begin, count);
  Statistics s;
  double sum = 0, squares = 0;
  for (int64_t r = 0; r < view.rows; ++r) {
    for (int64_t c = 0; c < view.cols; ++c) {
      const float x = view.row(r)[c];
      sum += x;
      squares += double{x} * x;
      s.lowest = std::min(s.lowest, x);
      s.highest = std::max(s.highest, x);
    }
  }
  const double n = static_cast<double>(view.rows * view.cols);
  s.mean = sum / n;
  s.stddev = std::sqrt(squares / n - s.mean * s.mean);
  return s;
}

// The libraries' measured figures: std * sqrt(d) of each gate group.
TEST(Initialize, SruGateGroups) {
  const auto model = Make(R"(
    input { features { size: 400 } }
    blocks { sru { hidden_size: 300 num_layers: 2 dropout: 0.36 rescale: true
                   highway_bias: -1 } })");
  const std::vector<float> p = InitializeParameters(*model, 1);
  const auto figure = [&](int group) {
    return Of(*model, p, "blocks.0.layers.0.projection", group * 300, 300)
               .stddev *
           std::sqrt(400);
  };
  EXPECT_NEAR(figure(0), 0.800, 0.008);
  EXPECT_NEAR(figure(1), 0.706, 0.008);
  EXPECT_NEAR(figure(2), 0.706, 0.008);
  EXPECT_NEAR(figure(3), 1.314, 0.013);
  // Layer 1 is the last: no dropout. Bounds are sqrt(3 / d).
  const Statistics last = Of(*model, p, "blocks.0.layers.1.projection", 0, 300);
  EXPECT_NEAR(last.stddev * std::sqrt(300), 1.0, 0.01);
  EXPECT_NEAR(last.highest, std::sqrt(3.0 / 300), 1e-4);
  EXPECT_NEAR(last.lowest, -std::sqrt(3.0 / 300), 1e-4);
  EXPECT_NEAR(last.mean, 0, 1e-3);
}

TEST(Initialize, SruVectors) {
  const auto model = Make(R"(
    input { features { size: 40 } }
    blocks { sru { hidden_size: 2000 num_layers: 1 rescale: true
                   highway_bias: -1.5 layer_norm: true } })");
  const std::vector<float> p = InitializeParameters(*model, 1);
  const std::string layer = "blocks.0.layers.0.";
  EXPECT_NEAR(Of(*model, p, layer + "weight_c").stddev, std::sqrt(0.5), 0.02);
  const float* bias =
      p.data() + model->parameters().Find(layer + "bias")->offset;
  EXPECT_EQ(bias[0], 0.0f);
  EXPECT_EQ(bias[1999], 0.0f);
  EXPECT_EQ(bias[2000], -1.5f);
  EXPECT_EQ(bias[3999], -1.5f);
  EXPECT_NEAR(Of(*model, p, layer + "scale_x").mean,
              std::sqrt(1 + 2 * std::exp(-1.5)), 1e-6);
  EXPECT_EQ(Of(*model, p, layer + "layer_norm.weight").lowest, 1.0f);
  EXPECT_EQ(Of(*model, p, layer + "layer_norm.bias").highest, 0.0f);
  // layer_norm: a tenth.
  EXPECT_NEAR(Of(*model, p, layer + "projection", 0, 2000).stddev,
              0.1 / std::sqrt(40), 3e-4);
}

TEST(Initialize, SruVariants) {
  const auto v1 = Make(R"(
    input { features { size: 300 } }
    blocks { sru { hidden_size: 300 num_layers: 1 v1: true rnn_dropout: 0.19 } })");
  const std::vector<float> p = InitializeParameters(*v1, 1);
  EXPECT_EQ(Of(*v1, p, "blocks.0.layers.0.weight_c").stddev, 0.0);
  EXPECT_EQ(Of(*v1, p, "blocks.0.layers.0.scale_x").mean, 1.0);
  EXPECT_NEAR(Of(*v1, p, "blocks.0.layers.0.projection", 300, 300).stddev *
                  std::sqrt(300),
              0.9, 0.01);

  const auto dev = Make(R"(
    input { features { size: 100 } }
    blocks { sru { hidden_size: 300 num_layers: 1 library: SRU_3_DEV
                   projection_size: 50 } })");
  const std::vector<float> q = InitializeParameters(*dev, 1);
  EXPECT_NEAR(Of(*dev, q, "blocks.0.layers.0.projection_in").highest,
              std::sqrt(6.0 / 150), 1e-3);
  EXPECT_NEAR(Of(*dev, q, "blocks.0.layers.0.projection").highest,
              std::sqrt(6.0 / (50 + 1200)), 1e-3);
  EXPECT_NEAR(Of(*dev, q, "blocks.0.layers.0.weight_c").highest, 1.0, 0.02);

  const auto uv = Make(R"(
    input { features { size: 25 } }
    blocks { sru { hidden_size: 100 num_layers: 1 bidirectional: true
                   custom_m: CUSTOM_TRANSFORM_UV weight_c_init: 0.25 } })");
  const std::vector<float> r = InitializeParameters(*uv, 1);
  const std::string bias = "blocks.0.layers.0.projection_bias";
  EXPECT_NEAR(Of(*uv, r, "blocks.0.layers.0.projection").highest, 0.2, 1e-3);
  EXPECT_GT(Of(*uv, r, bias, 0, 400).highest, 0.19);
  EXPECT_EQ(Of(*uv, r, bias, 400, 200).stddev, 0.0);
  EXPECT_GT(Of(*uv, r, bias, 600, 400).highest, 0.19);
  EXPECT_EQ(Of(*uv, r, bias, 1000, 200).stddev, 0.0);
  EXPECT_NEAR(Of(*uv, r, "blocks.0.layers.0.weight_c").lowest, -0.25, 0.02);
}

TEST(Initialize, AroundTheCells) {
  const auto model = Make(R"(
    input { token_embedding { vocabulary_size: 500 embedding_size: 101 } }
    blocks { name: "a" sru { hidden_size: 64 num_layers: 1
                             proj_input_to_hidden_first: true } }
    blocks { name: "b" qrnn { hidden_size: 100 window: 2 } }
    output { linear { size: 400 } })");
  const std::vector<float> p = InitializeParameters(*model, 7);
  const Statistics embedding = Of(*model, p, "embedding.weight");
  EXPECT_NEAR(embedding.mean, 0, 0.02);
  EXPECT_NEAR(embedding.stddev, 1, 0.02);
  EXPECT_GT(embedding.highest, 3.5);
  EXPECT_LT(embedding.highest, 6);
  EXPECT_NEAR(Of(*model, p, "blocks.0.input_to_hidden.weight").highest,
              1 / std::sqrt(101), 1e-3);
  EXPECT_NEAR(Of(*model, p, "blocks.1.layers.0.projection").lowest,
              -1 / std::sqrt(128), 1e-3);
  EXPECT_NEAR(Of(*model, p, "blocks.1.layers.0.bias").stddev,
              1 / std::sqrt(3 * 128), 5e-3);
  EXPECT_NEAR(Of(*model, p, "output.weight").highest, 0.1, 1e-4);
  EXPECT_NEAR(Of(*model, p, "output.bias").highest, 0.1, 1e-2);
}

TEST(Initialize, SeedDecidesAndPaddingIsZero) {
  const auto model = Make(R"(
    input { token_embedding { vocabulary_size: 5 embedding_size: 3 } }
    blocks { sru { hidden_size: 3 } })");
  const std::vector<float> p = InitializeParameters(*model, 1);
  EXPECT_EQ(p, InitializeParameters(*model, 1));
  EXPECT_NE(p, InitializeParameters(*model, 2));
  EXPECT_EQ(static_cast<int64_t>(p.size()), model->parameters().buffer_size());
  std::vector<bool> used(p.size());
  for (const Parameter& parameter : model->parameters().parameters()) {
    std::fill_n(used.begin() + parameter.offset, parameter.count(), true);
  }
  for (size_t i = 0; i < p.size(); ++i) {
    EXPECT_TRUE(used[i] || p[i] == 0.0f) << i;
  }
}

}  // namespace
}  // namespace recurve
