#include "engine/model/model.h"

#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/config.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<std::shared_ptr<const Model>> TryMake(const std::string& text) {
  auto config = ParseModelConfig(text);
  if (!config.ok()) return config.status();
  return Model::Create(*config);
}

std::shared_ptr<const Model> Make(const std::string& text) {
  auto model = TryMake(text);
  EXPECT_TRUE(model.ok()) << model.status();
  return model.ok() ? *model : nullptr;
}

std::vector<std::string> Listing(const Model& model) {
  std::vector<std::string> lines;
  for (const Parameter& p : model.parameters().parameters()) {
    lines.push_back(absl::StrCat(p.name, " ", p.rows, "x", p.cols,
                                 p.trainable ? "" : " frozen"));
  }
  return lines;
}

const SruShape& Sru(const Model& model, int layer) {
  return std::get<SruLayer>(model.layers()[layer].cell).shape;
}
const QrnnShape& Qrnn(const Model& model, int layer) {
  return std::get<QrnnLayer>(model.layers()[layer].cell).shape;
}

TEST(Model, LanguageModel) {
  const auto model = Make(R"(
    input { token_embedding { vocabulary_size: 73 embedding_size: 96 } }
    blocks { sru { hidden_size: 192 num_layers: 3 dropout: 0.1
                   highway_bias: -2 layer_norm: true } }
    output { linear { size: 73 } }
    loss { kind: CROSS_ENTROPY })");
  EXPECT_THAT(
      Listing(*model),
      ElementsAre(
          "embedding.weight 73x96", "blocks.0.layers.0.projection 96x768",
          "blocks.0.layers.0.weight_c 2x192", "blocks.0.layers.0.bias 2x192",
          "blocks.0.layers.0.scale_x 1x1 frozen",
          "blocks.0.layers.0.layer_norm.weight 1x96",
          "blocks.0.layers.0.layer_norm.bias 1x96",
          "blocks.0.layers.1.projection 192x576",
          "blocks.0.layers.1.weight_c 2x192", "blocks.0.layers.1.bias 2x192",
          "blocks.0.layers.1.scale_x 1x1 frozen",
          "blocks.0.layers.1.layer_norm.weight 1x192",
          "blocks.0.layers.1.layer_norm.bias 1x192",
          "blocks.0.layers.2.projection 192x576",
          "blocks.0.layers.2.weight_c 2x192", "blocks.0.layers.2.bias 2x192",
          "blocks.0.layers.2.scale_x 1x1 frozen",
          "blocks.0.layers.2.layer_norm.weight 1x192",
          "blocks.0.layers.2.layer_norm.bias 1x192", "output.weight 73x192",
          "output.bias 1x73"));
  EXPECT_EQ(Sru(*model, 0).skip, SruSkip::kTransform);
  EXPECT_EQ(Sru(*model, 1).skip, SruSkip::kInput);
  EXPECT_FLOAT_EQ(std::get<SruLayer>(model->layers()[1].cell).dropout, 0.1f);
  EXPECT_EQ(std::get<SruLayer>(model->layers()[2].cell).dropout, 0.0f);
  EXPECT_TRUE(model->takes_tokens());
  EXPECT_EQ(model->output_size(), 73);
  EXPECT_EQ(model->hidden_channels(), 192);
  EXPECT_EQ(model->state_size(), 3 * 192);
  EXPECT_FALSE(model->bidirectional());
}

TEST(Model, OffsetsAreAlignedAndDisjoint) {
  const auto model = Make(R"(
    input { features { size: 5 } }
    blocks { sru { hidden_size: 7 v1: true layer_norm: true } }
    output { linear { size: 3 } })");
  int64_t end = 0, count = 0;
  for (const Parameter& p : model->parameters().parameters()) {
    EXPECT_EQ(p.offset % kParameterAlignment, 0);
    EXPECT_GE(p.offset, end);
    EXPECT_EQ(model->parameters().Find(p.name), &p);
    end = p.offset + p.count();
    count += p.count();
  }
  EXPECT_GE(model->parameters().buffer_size(), end);
  EXPECT_EQ(model->parameters().buffer_size() % kParameterAlignment, 0);
  EXPECT_EQ(model->parameters().parameter_count(), count);
  EXPECT_EQ(model->parameters().Find("nothing"), nullptr);
  EXPECT_FALSE(
      model->parameters().Find("blocks.0.layers.1.weight_c")->trainable);
}

TEST(Model, ProjectionsOfSru2) {
  const char* const kText = R"(
    input { features { size: 9 } }
    blocks { sru { hidden_size: 16 projection_size: 9 } })";
  const auto model = Make(kText);
  EXPECT_EQ(Sru(*model, 0).projection_size, 0);  // not below the input size
  EXPECT_EQ(Sru(*model, 1).projection_size, 9);
  EXPECT_EQ(model->parameters().Find("blocks.0.layers.0.projection_in"),
            nullptr);
  EXPECT_EQ(model->parameters().Find("blocks.0.layers.1.projection")->rows, 9);
}

TEST(Model, ProjectionsOfSru3AreHonoured) {
  const auto model = Make(R"(
    input { features { size: 12 } }
    blocks { sru { hidden_size: 12 library: SRU_3_DEV
                   projection_size: [20, 0] } })");
  EXPECT_EQ(Sru(*model, 0).projection_size, 20);
  EXPECT_EQ(Sru(*model, 1).projection_size, 0);
}

TEST(Model, SkipOffAndInputToHidden) {
  const auto model = Make(R"(
    input { features { size: 7 } }
    blocks { name: "a" sru { hidden_size: 5 bidirectional: true num_layers: 1
             proj_input_to_hidden_first: true } }
    blocks { name: "b" sru { hidden_size: 10 proj_input_to_hidden_first: true
             num_layers: 1 has_skip_term: false normalize_after: true
             layer_norm: true use_tanh: true } })");
  EXPECT_THAT(Listing(*model)[0], "blocks.0.input_to_hidden.weight 10x7");
  EXPECT_EQ(model->parameters().Find("blocks.1.input_to_hidden.weight"),
            nullptr);
  EXPECT_EQ(Sru(*model, 0).skip, SruSkip::kInput);
  EXPECT_EQ(Sru(*model, 1).skip, SruSkip::kNone);
  EXPECT_EQ(Sru(*model, 1).layer_norm, NormPlace::kAfter);
  EXPECT_TRUE(Sru(*model, 1).use_tanh);
  EXPECT_TRUE(model->bidirectional());
  EXPECT_EQ(model->layers()[1].c_offset, 10);
}

TEST(Model, CustomTransforms) {
  const auto model = Make(R"(
    input { features { size: 9 } }
    blocks { sru { hidden_size: 5 bidirectional: true num_layers: 1
                   custom_m: CUSTOM_TRANSFORM_UV } })");
  EXPECT_EQ(Sru(*model, 0).gate_groups(), 6);
  EXPECT_EQ(model->parameters().Find("blocks.0.layers.0.projection")->cols, 60);
  EXPECT_EQ(model->parameters().Find("blocks.0.layers.0.projection_bias")->cols,
            60);
  EXPECT_EQ(model->parameters().Find("blocks.0.layers.0.weight_c")->cols, 10);
}

TEST(Model, QrnnLayersAndState) {
  const auto model = Make(R"(
    input { token_embedding { vocabulary_size: 10 embedding_size: 12 } }
    blocks { qrnn { hidden_size: 20 dropout: 0.25
                    layers { window: 2 save_prev_x: true }
                    layers { hidden_size: 6 output_gate: false zoneout: 0.5 }
                    layers { window: 2 } } })");
  EXPECT_EQ(Qrnn(*model, 0).window, 2);
  EXPECT_EQ(Qrnn(*model, 1).gate_groups(), 2);
  EXPECT_EQ(Qrnn(*model, 1).input_size, 20);
  EXPECT_EQ(Qrnn(*model, 2).input_size, 6);
  EXPECT_EQ(model->parameters().Find("blocks.0.layers.0.projection")->rows, 24);
  EXPECT_EQ(model->layers()[0].c_offset, 0);
  EXPECT_EQ(model->layers()[0].x_previous_offset, 20);
  EXPECT_EQ(model->layers()[1].c_offset, 32);
  EXPECT_EQ(model->layers()[1].x_previous_offset, -1);
  EXPECT_EQ(model->layers()[2].x_previous_offset, 58);
  EXPECT_EQ(model->state_size(), 64);

  std::vector<float> state(2 * 64, 1.0f);
  model->BeginCall(absl::MakeSpan(state), 2);
  for (int i = 0; i < 128; ++i) {
    EXPECT_EQ(state[i], i % 64 >= 58 ? 0.0f : 1.0f) << i;
  }
}

std::shared_ptr<const Model> Pooled(const std::string& pooling,
                                    const std::string& options = "") {
  return Make("input { features { size: 4 } } blocks { sru { hidden_size: 5 " +
              options + " } } output { pooling: " + pooling + " }");
}

TEST(Model, TheCarryIsTheStateAndWhatIsPooled) {
  for (const char* pooling : {"POOLING_NONE", "POOLING_LAST"}) {
    const auto model = Pooled(pooling);
    EXPECT_EQ(model->carry_size(), 10);
    EXPECT_EQ(model->pool_carry_offset(), -1);
  }
  const auto mean = Pooled("POOLING_MEAN", "num_layers: 1");
  EXPECT_EQ(mean->state_size(), 5);
  EXPECT_EQ(mean->pool_carry_offset(), 6);
  EXPECT_EQ(mean->carry_size(), 6 + 2 + 10);
  EXPECT_EQ(Pooled("POOLING_MAX")->pool_carry_offset(), 10);
  EXPECT_EQ(Pooled("POOLING_MAX")->carry_size(), 10 + 2 + 6);
}

TEST(Model, BidirectionalModelsAreNotCutAndCarryNothingMore) {
  const auto model = Pooled("POOLING_MEAN", "bidirectional: true");
  EXPECT_FALSE(model->CutsInTime());
  EXPECT_EQ(model->carry_size(), model->state_size());
  EXPECT_TRUE(Pooled("POOLING_MEAN")->CutsInTime());
}

TEST(Model, StatesBecomeCarriesWithNothingPooled) {
  const auto mean = Pooled("POOLING_MEAN", "num_layers: 1");
  const std::vector<float> states = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  std::vector<float> carries = mean->CarriesOf(states);
  ASSERT_EQ(carries.size(), 36);
  EXPECT_EQ(carries[4], 5);
  EXPECT_EQ(carries[18], 6);
  for (int i = 0; i < 36; ++i) {
    if (i % 18 >= 5) EXPECT_EQ(carries[i], 0);
  }
  EXPECT_EQ(mean->StatesOf(carries), states);
  EXPECT_EQ(mean->CarriesOf({}), std::vector<float>());

  for (int i = 0; i < 36; ++i) carries[i] = 1;
  mean->BeginCall(absl::MakeSpan(carries), 2);
  for (int i = 0; i < 36; ++i) EXPECT_EQ(carries[i], i % 18 < 5 ? 1 : 0);
}

TEST(Model, BidirectionalQrnnKeepsNoPreviousInput) {
  const auto model = Make(R"(
    input { features { size: 4 } }
    blocks { qrnn { hidden_size: 3 window: 2 bidirectional: true } })");
  EXPECT_EQ(model->state_size(), 6);
  EXPECT_TRUE(model->bidirectional());
}

TEST(Model, TiedOutput) {
  const auto model = Make(R"(
    input { token_embedding { vocabulary_size: 10 embedding_size: 12 } }
    blocks { sru { hidden_size: 6 bidirectional: true } }
    output { linear { size: 10 tied: true bias: false } })");
  EXPECT_EQ(model->parameters().Find("output.weight"), nullptr);
  EXPECT_EQ(model->parameters().Find("output.bias"), nullptr);
  EXPECT_THAT(TryMake(R"(
    input { token_embedding { vocabulary_size: 10 embedding_size: 12 } }
    blocks { sru { hidden_size: 6 } }
    output { linear { size: 10 tied: true } })")
                  .status()
                  .message(),
              HasSubstr("embedding_size 12 is not 6"));
}

TEST(Model, LimitsOfTheWhole) {
  std::string text = "input { features { size: 4 } }";
  for (int b = 0; b < 2; ++b) {
    absl::StrAppend(&text, "blocks { name: 'b", b,
                    "' sru { hidden_size: 4 num_layers: 200 } }");
  }
  EXPECT_THAT(TryMake(text).status().message(), HasSubstr("has 400 layers"));
  EXPECT_THAT(TryMake("input { features { size: 65536 } }"
                      "blocks { sru { hidden_size: 65536 num_layers: 256 "
                      "bidirectional: true } }")
                  .status()
                  .message(),
              HasSubstr("parameters; the limit is"));
}

class CheckBatchTest : public testing::Test {
 protected:
  std::shared_ptr<const Model> tokens_ = Make(R"(
    input { token_embedding { vocabulary_size: 10 embedding_size: 3 } }
    blocks { sru { hidden_size: 3 } }
    output { linear { size: 4 } } loss { kind: CROSS_ENTROPY })");
  std::shared_ptr<const Model> features_ = Make(R"(
    input { features { size: 2 } }
    blocks { sru { hidden_size: 3 } }
    output { pooling: POOLING_MEAN } loss { kind: MEAN_SQUARED_ERROR })");
};

TEST_F(CheckBatchTest, Good) {
  EXPECT_TRUE(tokens_->CheckBatch({{0, 2, 3}, {0, 9, 4}, {}}, false).ok());
  EXPECT_TRUE(features_->CheckBatch({{0, 1}, {}, {1, 2}}, false).ok());
  EXPECT_TRUE(features_->CheckBatch({{0, 0, 1, 1}, {}, {1, 2}}, true).ok());
}

TEST_F(CheckBatchTest, BadBatchesSayWhere) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto message = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(message(tokens_->CheckBatch({{0}, {}, {}}, true)),
              HasSubstr("no sequences"));
  EXPECT_THAT(message(tokens_->CheckBatch({{}, {}, {}}, true)),
              HasSubstr("no sequences"));
  EXPECT_THAT(message(tokens_->CheckBatch({{1, 2}, {1}, {}}, true)),
              HasSubstr("cu_seqlens[0]: 1"));
  EXPECT_THAT(message(tokens_->CheckBatch({{0, 2, 1}, {1}, {}}, true)),
              HasSubstr("cu_seqlens[2]: 1 is below"));
  EXPECT_THAT(message(tokens_->CheckBatch({{0, 2, 2}, {1, 1}, {}}, false)),
              HasSubstr("sequence 1 is empty"));
  EXPECT_THAT(message(tokens_->CheckBatch({{0, 2}, {1}, {}}, false)),
              HasSubstr("ends at 2"));
  EXPECT_THAT(
      message(tokens_->CheckBatch({{0, 2, 4}, {1, 1, 1, 10}, {}}, false)),
      HasSubstr("tokens[3] (sequence 1, step 1): 10 is not in [0, 10)"));
  EXPECT_THAT(message(tokens_->CheckBatch({{0, 1}, {-1}, {}}, false)),
              HasSubstr("-1"));
  EXPECT_THAT(message(tokens_->CheckBatch({{0, 1}, {}, {1, 2}}, false)),
              HasSubstr("takes tokens"));
  EXPECT_THAT(message(features_->CheckBatch({{0, 1}, {1}, {1, 2}}, false)),
              HasSubstr("takes features"));
  EXPECT_THAT(message(features_->CheckBatch({{0, 1}, {}, {1, 2, 3}}, false)),
              HasSubstr("3 numbers"));
  EXPECT_THAT(
      message(features_->CheckBatch({{0, 1, 2}, {}, {1, 2, 3, nan}}, false)),
      HasSubstr("features (sequence 1, step 0, column 1): nan"));
  EXPECT_THAT(message(features_->CheckBatch({{0, int64_t{1} << 62}, {}, {1, 2}},
                                            false)),
              HasSubstr("cu_seqlens ends at 4611686018427387904"));
}

TEST_F(CheckBatchTest, Targets) {
  const SequenceBatch batch = {{0, 2, 3}, {0, 9, 4}, {}};
  EXPECT_TRUE(tokens_->CheckTargets(batch, {{0, -1, 3}, {}, {}}).ok());
  EXPECT_TRUE(tokens_->CheckTargets(batch, {{0, 1, 3}, {}, {1, 0, 2}}).ok());
  EXPECT_THAT(tokens_->CheckTargets(batch, {{0, 1}, {}, {}}).message(),
              HasSubstr("2 of them for 3 rows"));
  EXPECT_THAT(tokens_->CheckTargets(batch, {{0, 1, 4}, {}, {}}).message(),
              HasSubstr("targets.classes[2]: 4"));
  EXPECT_THAT(tokens_->CheckTargets(batch, {{0, 1, 3}, {}, {1}}).message(),
              HasSubstr("targets.weights: 1"));
  EXPECT_THAT(
      tokens_->CheckTargets(batch, {{0, 1, 3}, {}, {1, 1, -1}}).message(),
      HasSubstr("targets.weights[2]: -1"));
  EXPECT_THAT(tokens_->CheckTargets(batch, {{0, 1, 3}, {1}, {}}).message(),
              HasSubstr("takes classes"));

  const SequenceBatch rows = {{0, 1, 2}, {}, {1, 2, 3, 4}};
  EXPECT_TRUE(features_->CheckTargets(rows, {{}, {1, 2, 3, 4, 5, 6}, {}}).ok());
  EXPECT_THAT(features_->CheckTargets(rows, {{}, {1}, {}}).message(),
              HasSubstr("1 of them for 2 rows of 3"));
  EXPECT_THAT(features_->CheckTargets(rows, {{}, {1, 2, 3, 4, 5, INFINITY}, {}})
                  .message(),
              HasSubstr("row 1, column 2"));
}

}  // namespace
}  // namespace recurve
