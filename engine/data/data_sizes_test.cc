#include "engine/data/data_sizes.h"

#include <limits>
#include <string>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

v1::ModelConfig Config(const std::string& textproto) {
  v1::ModelConfig config;
  EXPECT_TRUE(
      google::protobuf::TextFormat::ParseFromString(textproto, &config));
  return config;
}

// The sizes after filling: vocabulary, features, output.
struct Sizes {
  int vocabulary, features, output;
  bool operator==(const Sizes&) const = default;
};

Sizes Fill(const Dataset& dataset, const std::string& textproto,
           int64_t text_ids = 0) {
  v1::ModelConfig config = Config(textproto);
  FillDataSizes(dataset, text_ids, &config);
  return {config.input().token_embedding().vocabulary_size(),
          config.input().features().size(), config.output().linear().size()};
}

const char kTokens[] = "input { token_embedding {} } output { linear {} }";

SequenceDataset Tokens() {
  SequenceDataset data;
  data.sequences.tokens = {3, 8, 1};
  data.sequences.cu_seqlens = {0, 3};
  return data;
}

TEST(DataSizes, OfText) {
  const Dataset text = TextDataset{{0, 1}};
  EXPECT_EQ(Fill(text, kTokens, 73), (Sizes{73, 0, 73}));
  EXPECT_EQ(Fill(text,
                 "input { token_embedding { vocabulary_size: 80 } } "
                 "output { linear {} }",
                 73),
            (Sizes{80, 0, 80}));
}

TEST(DataSizes, OfTokensWithClasses) {
  SequenceDataset data = Tokens();
  data.targets.classes = {-1, 4, 0};
  EXPECT_EQ(Fill(data, kTokens), (Sizes{9, 0, 5}));
  EXPECT_EQ(
      Fill(data,
           "input { token_embedding {} } output { linear { tied: true } }"),
      (Sizes{9, 0, 9}));
}

TEST(DataSizes, OfNextTokens) {
  SequenceDataset data = Tokens();
  data.next_token = true;
  data.targets.classes = {8, 1, 11};
  EXPECT_EQ(Fill(data, kTokens), (Sizes{12, 0, 12}));
}

TEST(DataSizes, OfFeaturesWithValues) {
  SequenceDataset data;
  data.feature_size = 6;
  data.target_size = 2;
  EXPECT_EQ(Fill(data, "input { features {} } output { linear {} }"),
            (Sizes{0, 6, 2}));
}

TEST(DataSizes, LeaveWhatIsGivenAndWhatIsAbsent) {
  SequenceDataset data = Tokens();
  data.targets.classes = {1};
  EXPECT_EQ(Fill(data,
                 "input { token_embedding { vocabulary_size: 4 } } output "
                 "{ linear { size: 7 } }"),
            (Sizes{4, 0, 7}));
  v1::ModelConfig config = Config("input { token_embedding {} }");
  FillDataSizes(data, 0, &config);
  EXPECT_FALSE(config.output().has_linear());
}

TEST(DataSizes, StayWithinTheirType) {
  SequenceDataset data = Tokens();
  data.sequences.tokens = {std::numeric_limits<int32_t>::max()};
  data.targets.classes = {-5};
  EXPECT_EQ(Fill(data, kTokens),
            (Sizes{std::numeric_limits<int32_t>::max(), 0, 0}));
}

TEST(DataSizes, SayWhetherAnythingIsOpen) {
  EXPECT_TRUE(LeavesSizesToData(Config(kTokens)));
  EXPECT_TRUE(LeavesSizesToData(Config("input { features {} }")));
  EXPECT_TRUE(LeavesSizesToData(
      Config("input { features { size: 1 } } output { linear {} }")));
  EXPECT_FALSE(LeavesSizesToData(
      Config("input { features { size: 1 } } output { linear { size: 1 } }")));
  EXPECT_FALSE(LeavesSizesToData(Config("")));
}

}  // namespace
}  // namespace recurve
