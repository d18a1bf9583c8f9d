#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "engine/model/executor_test_util.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

struct Case {
  const char* name;
  const char* config;
};

// Dropout is on wherever there is one: masks are a function of their keys, so
// the loss of a training pass is a function of the weights.
const Case kCases[] = {
    {"TiedLanguageModel", R"(
      input { token_embedding { vocabulary_size: 13 embedding_size: 12 }
              dropout: 0.2 }
      blocks { sru { hidden_size: 12 num_layers: 3 dropout: 0.3
                     rnn_dropout: 0.2 layer_norm: true highway_bias: -1
                     rescale: true use_tanh: true } }
      output { dropout: 0.25 linear { size: 13 tied: true } }
      loss { kind: CROSS_ENTROPY })"},
    {"PostNormProjectionBidirectional", R"(
      input { token_embedding { vocabulary_size: 13 embedding_size: 9 } }
      blocks { sru { hidden_size: 7 bidirectional: true dropout: 0.3
                     layer_norm: true normalize_after: true
                     projection_size: 5 proj_input_to_hidden_first: true } }
      output { linear { size: 6 } }
      loss { kind: CROSS_ENTROPY ignore_index: 2 })"},
    {"FrozenV", R"(
      input { features { size: 5 } }
      blocks { sru { hidden_size: 6 v1: true has_skip_term: false } }
      output { linear { size: 3 bias: false } }
      loss { kind: MEAN_SQUARED_ERROR })"},
    {"CustomTransform", R"(
      input { features { size: 5 } }
      blocks { sru { hidden_size: 6 bidirectional: true rnn_dropout: 0.2
                     custom_m: CUSTOM_TRANSFORM_UV } }
      loss { kind: MEAN_SQUARED_ERROR })"},
    {"QrnnMeanPooling", R"(
      input { token_embedding { vocabulary_size: 13 embedding_size: 9 } }
      blocks { qrnn { hidden_size: 8 num_layers: 3 window: 2 dropout: 0.3
                      zoneout: 0.2 } }
      output { pooling: POOLING_MEAN dropout: 0.2 linear { size: 4 } }
      loss { kind: CROSS_ENTROPY })"},
    {"BidirectionalQrnnMaxPooling", R"(
      input { features { size: 5 } dropout: 0.2 }
      blocks { qrnn { hidden_size: 8 num_layers: 2 window: 2
                      bidirectional: true output_gate: false } }
      output { pooling: POOLING_MAX linear { size: 4 } }
      loss { kind: CROSS_ENTROPY })"},
    {"SeveralBlocksLastPooling", R"(
      input { features { size: 5 } }
      blocks { name: "a" sru { hidden_size: 6 num_layers: 1 } }
      blocks { name: "b" qrnn { hidden_size: 7 dropout: 0.2 num_layers: 2 } }
      blocks { name: "c" sru { hidden_size: 4 num_layers: 1
                               proj_input_to_hidden_first: true } }
      output { pooling: POOLING_LAST }
      loss { kind: MEAN_SQUARED_ERROR })"},
};

class GradientTest : public testing::TestWithParam<Case> {
 protected:
  GradientTest()
      : e_(GetParam().config),
        batch_(RandomBatch(e_.model(), {5, 1, 9, 3, 2}, 3)),
        targets_(RandomTargets(e_.model(), batch_, 4)) {}

  double Loss(const std::vector<float>& parameters) {
    e_.SetParameters(parameters);
    ForwardArgs args;
    args.batch = &batch_;
    args.mode = Mode::kTraining;
    args.random.seed = 5;
    e_.Forward(args);
    const auto loss = e_.executor().Loss(targets_);
    EXPECT_TRUE(loss.ok()) << loss.status();
    return loss->loss;
  }

  // The loss's derivative along `direction`, by differences.
  double Slope(const std::vector<float>& direction, float step) {
    const std::vector<float> at = e_.parameters();
    std::vector<float> forward = at, backward = at;
    for (size_t i = 0; i < at.size(); ++i) {
      forward[i] += step * direction[i];
      backward[i] -= step * direction[i];
    }
    const double slope = (Loss(forward) - Loss(backward)) / (2 * step);
    e_.SetParameters(at);
    return slope;
  }

  TestExecutor e_;
  SequenceBatch batch_;
  Targets targets_;
};

double Dot(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * b[i];
  return sum;
}

TEST_P(GradientTest, IsTheSlopeOfTheLoss) {
  Loss(e_.parameters());
  const std::vector<float> gradient = e_.Gradients(targets_);
  std::mt19937 random(6);
  for (const Parameter& p : e_.model().parameters().parameters()) {
    // One direction along the parameter's gradient, and some random ones.
    for (int trial = 0; trial < 4; ++trial) {
      std::vector<float> direction(gradient.size(), 0.0f);
      for (int64_t i = p.offset; i < p.offset + p.count(); ++i) {
        direction[i] = trial == 0 ? gradient[i] : random() % 2 ? 1 : -1;
        // A part of these biases has an influence that is not to be learnt.
        const bool frozen = absl::EndsWith(p.name, "projection_bias");
        if (frozen && gradient[i] == 0) direction[i] = 0;
      }
      const double length = std::sqrt(Dot(direction, direction));
      if (!p.trainable || length == 0) continue;
      for (float& d : direction) d /= length;
      const double expected = Dot(gradient, direction);
      const double size =
          std::sqrt(Dot(gradient, gradient)) / 50 + std::abs(expected);
      EXPECT_NEAR(Slope(direction, 4e-3f), expected, 0.01 * size)
          << p.name << ", trial " << trial;
    }
  }
}

TEST_P(GradientTest, PaddingAndFrozenParametersGetZero) {
  Loss(e_.parameters());
  const std::vector<float> gradient = e_.Gradients(targets_);
  std::vector<bool> trained(gradient.size());
  for (const Parameter& p : e_.model().parameters().parameters()) {
    if (!p.trainable) continue;
    std::fill_n(trained.begin() + p.offset, p.count(), true);
    double sum = 0;
    for (int64_t i = 0; i < p.count(); ++i) {
      sum += std::abs(gradient[p.offset + i]);
    }
    EXPECT_GT(sum, 0) << p.name;
  }
  for (size_t i = 0; i < gradient.size(); ++i) {
    EXPECT_TRUE(trained[i] || gradient[i] == 0) << i;
  }
}

TEST_P(GradientTest, BiasOfStepCoefficientsGetsZero) {
  Loss(e_.parameters());
  const std::vector<float> gradient = e_.Gradients(targets_);
  for (const Layer& layer : e_.model().layers()) {
    const auto* sru = std::get_if<SruLayer>(&layer.cell);
    if (sru == nullptr || !sru->shape.has_step_coefficients) continue;
    const Parameter& bias = *e_.model().parameters().Find(
        LayerParameterName(layer.block, layer.index, "projection_bias"));
    const int64_t group = sru->shape.hidden_size;
    for (int64_t i = 0; i < bias.count(); ++i) {
      const int64_t m = i / group % sru->shape.gate_groups();
      const bool step_coefficient = m >= sru->shape.gate_groups() - 2;
      EXPECT_EQ(gradient[bias.offset + i] == 0, step_coefficient) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GradientTest, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace recurve
