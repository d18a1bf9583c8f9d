#include "engine/model/config.h"

#include <string>
#include <tuple>

#include "gmock/gmock.h"
#include "google/protobuf/unknown_field_set.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using testing::HasSubstr;

constexpr char kGood[] = R"(
  input { features { size: 5 } }
  blocks { sru { hidden_size: 7 } }
  output { linear { size: 3 } }
  loss { kind: CROSS_ENTROPY }
)";

TEST(ParseModelConfig, ReadsTextproto) {
  const auto config = ParseModelConfig(kGood);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->blocks(0).sru().hidden_size(), 7);
  EXPECT_TRUE(CheckFields(*config).ok()) << CheckFields(*config);
}

TEST(ParseModelConfig, UnknownFieldNamesLineAndColumn) {
  const auto config = ParseModelConfig("input {\n  feature { size: 5 }\n}");
  ASSERT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(config.status().message(), HasSubstr("line 2, column 11"));
  EXPECT_THAT(config.status().message(), HasSubstr("feature"));
}

TEST(ParseModelConfig, RefusesEndlessText) {
  const auto config = ParseModelConfig(std::string(kMaxConfigBytes + 1, ' '));
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
}

// (textproto merged into kGood, what the message says)
using Case = std::tuple<const char*, const char*>;
class CheckFieldsTest : public testing::TestWithParam<Case> {};

TEST_P(CheckFieldsTest, NamesFieldValueAndLimit) {
  auto config = ParseModelConfig(kGood);
  const auto change = ParseModelConfig(std::get<0>(GetParam()));
  ASSERT_TRUE(config.ok() && change.ok()) << change.status();
  config->MergeFrom(*change);
  const absl::Status status = CheckFields(*config);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(status.message(), HasSubstr(std::get<1>(GetParam())));
}

INSTANTIATE_TEST_SUITE_P(
    Impossible, CheckFieldsTest,
    testing::Values(
        Case{"input { features { size: -1 } }",
             "input.features.size: -1 is not in [1, 65536]"},
        Case{"input { token_embedding { vocabulary_size: 9 } }",
             "input.token_embedding.embedding_size: 0"},
        Case{"input { dropout: 1 }", "input.dropout: 1 is not in [0, 1)"},
        Case{"input { dropout: nan }", "input.dropout: nan"},
        Case{"blocks { sru { hidden_size: 3 } }",
             "blocks[1].name: 'rnn' is not distinct"},
        Case{"blocks { name: 'b' }", "blocks[1]: neither sru nor qrnn"},
        Case{"blocks { name: 'a..b' sru { hidden_size: 3 } }",
             "blocks[1].name: 'a..b'"},
        Case{"blocks { name: 'b' sru { hidden_size: 65537 } }",
             "blocks[1].sru.hidden_size: 65537 is not in [1, 65536]"},
        Case{"blocks { name: 'b' sru { hidden_size: 3 num_layers: 0 } }",
             "blocks[1].sru.num_layers: 0 is not in [1, 256]"},
        Case{"blocks { name: 'b' sru { hidden_size: 3 dropout: -0.5 } }",
             "blocks[1].sru.dropout: -0.5"},
        Case{"blocks { name: 'b' sru { hidden_size: 3 rnn_dropout: 1 } }",
             "blocks[1].sru.rnn_dropout: 1"},
        Case{"blocks { name: 'b' sru { hidden_size: 3 highway_bias: inf } }",
             "blocks[1].sru.highway_bias: inf is not in [-50, 50]"},
        Case{"blocks { name: 'b' sru { hidden_size: 3 weight_c_init: -1 } }",
             "blocks[1].sru.weight_c_init: -1"},
        Case{"blocks { name: 'b' sru { hidden_size: 3 "
             "projection_size: [1, 2] } }",
             "blocks[1].sru.projection_size: 2 values; a list"},
        Case{"blocks { name: 'b' sru { hidden_size: 3 library: SRU_3_DEV "
             "projection_size: [1, 2, 3] } }",
             "blocks[1].sru.projection_size: 3 values for 2 layers"},
        Case{"blocks { name: 'b' sru { hidden_size: 3 projection_size: -1 } }",
             "blocks[1].sru.projection_size[0]: -1"},
        Case{"blocks { name: 'b' sru { hidden_size: 3 projection_size: 2 "
             "custom_m: CUSTOM_TRANSFORM_LINEAR } }",
             "blocks[1].sru.projection_size[0]: 2 is not 0"},
        Case{"blocks { name: 'b' sru { hidden_size: 3 library: SRU_3_DEV "
             "custom_m: CUSTOM_TRANSFORM_UV } }",
             "blocks[1].sru.custom_m"},
        Case{"blocks { name: 'b' qrnn { hidden_size: 3 window: 3 } }",
             "blocks[1].qrnn.window: 3 is not in [1, 2]"},
        Case{"blocks { name: 'b' qrnn { hidden_size: 3 zoneout: 1.5 } }",
             "blocks[1].qrnn.zoneout: 1.5 is not in [0, 1]"},
        Case{"blocks { name: 'b' qrnn { layers {} } }",
             "blocks[1].qrnn.hidden_size: 0"},
        Case{"blocks { name: 'b' qrnn { hidden_size: 2 layers {} "
             "layers { window: 0 } } }",
             "blocks[1].qrnn.layers[1].window: 0"},
        Case{"blocks { name: 'b' qrnn { hidden_size: 2 bidirectional: true "
             "save_prev_x: true } }",
             "blocks[1].qrnn.save_prev_x"},
        Case{"output { dropout: 2 }", "output.dropout: 2"},
        Case{"output { linear { size: -3 } }", "output.linear.size: -3"},
        Case{"output { linear { tied: true } }",
             "output.linear.tied: there is no input.token_embedding"},
        Case{"input { token_embedding { vocabulary_size: 9 embedding_size: 7 "
             "} } output { linear { tied: true } }",
             "output.linear.size: 3 is not 9"},
        Case{"loss { kind: MEAN_SQUARED_ERROR ignore_index: 0 }",
             "loss.ignore_index"}));

TEST(CheckFields, WhatIsMissing) {
  v1::ModelConfig config;
  EXPECT_THAT(CheckFields(config).message(), HasSubstr("input: neither"));
  config.mutable_input()->mutable_features()->set_size(3);
  EXPECT_THAT(CheckFields(config).message(), HasSubstr("blocks: their number"));
  config.add_blocks()->mutable_sru()->set_hidden_size(2);
  EXPECT_TRUE(CheckFields(config).ok());
  config.mutable_loss()->set_kind(v1::Loss::CROSS_ENTROPY);
  EXPECT_THAT(CheckFields(config).message(), HasSubstr("output.linear"));
  config.mutable_loss()->Clear();
  config.mutable_output()->set_dropout(0.5f);
  EXPECT_THAT(CheckFields(config).message(), HasSubstr("output.dropout"));
}

TEST(CheckFields, UnknownEnumValuesAreErrors) {
  auto config = ParseModelConfig(kGood);
  ASSERT_TRUE(config.ok());
  config->mutable_blocks(0)->mutable_sru()->set_custom_m(
      static_cast<v1::SruConfig::CustomTransform>(77));
  EXPECT_THAT(CheckFields(*config).message(), HasSubstr("custom_m: 77"));
}

TEST(CheckFields, UnknownFieldsOfTheWireAreErrors) {
  const auto good = ParseModelConfig(kGood);
  ASSERT_TRUE(good.ok());
  const auto message = [](const v1::ModelConfig& config) {
    EXPECT_EQ(CheckFields(config).code(), absl::StatusCode::kInvalidArgument);
    return std::string(CheckFields(config).message());
  };
  v1::ModelConfig config = *good;
  config.GetReflection()->MutableUnknownFields(&config)->AddVarint(1000, 1);
  EXPECT_EQ(message(config), "config: field number 1000 is unknown");
  config = *good;
  v1::SruConfig& sru = *config.mutable_blocks(0)->mutable_sru();
  sru.GetReflection()->MutableUnknownFields(&sru)->AddVarint(77, 1);
  EXPECT_EQ(message(config), "blocks[0].sru: field number 77 is unknown");
}

}  // namespace
}  // namespace recurve
