#include "engine/data/json_lines.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SequenceDataset Parse(const std::string& text) {
  auto dataset = ParseJsonLines(text);
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  return dataset.ok() ? *std::move(dataset) : SequenceDataset();
}

std::string Error(const std::string& text) {
  const absl::Status status = ParseJsonLines(text).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

TEST(JsonLines, TokensWithALabel) {
  const SequenceDataset data = Parse(
      "{\"tokens\": [3, 1, 4], \"label\": 2}\n"
      "\n"
      "{\"label\": -1, \"tokens\": [5]}\r\n");
  EXPECT_THAT(data.sequences.cu_seqlens, ElementsAre(0, 3, 4));
  EXPECT_THAT(data.sequences.tokens, ElementsAre(3, 1, 4, 5));
  EXPECT_THAT(data.targets.classes, ElementsAre(2, -1));
  EXPECT_THAT(data.targets.weights, IsEmpty());
  EXPECT_FALSE(data.per_step);
  EXPECT_FALSE(data.next_token);
}

TEST(JsonLines, FeaturesWithALabelAStep) {
  const SequenceDataset data = Parse(
      "{\"features\": [[0.5, 1], [2, 3], [4, 5]], \"labels\": [1, 0, 2]}");
  EXPECT_EQ(data.feature_size, 2);
  EXPECT_THAT(data.sequences.features, ElementsAre(0.5, 1, 2, 3, 4, 5));
  EXPECT_THAT(data.sequences.cu_seqlens, ElementsAre(0, 3));
  EXPECT_THAT(data.targets.classes, ElementsAre(1, 0, 2));
  EXPECT_TRUE(data.per_step);
}

TEST(JsonLines, TargetsASequenceAndAStep) {
  SequenceDataset data = Parse(
      "{\"tokens\": [1, 2], \"target\": [0.5, -2]}\n"
      "{\"tokens\": [3], \"target\": [1e-3, 7]}");
  EXPECT_EQ(data.target_size, 2);
  EXPECT_FALSE(data.per_step);
  EXPECT_THAT(data.targets.values, ElementsAre(0.5f, -2, 1e-3f, 7));
  data = Parse("{\"tokens\": [1, 2], \"target\": 3}");
  EXPECT_EQ(data.target_size, 1);
  EXPECT_THAT(data.targets.values, ElementsAre(3));
  data = Parse("{\"tokens\": [1, 2], \"target\": [[3], [4]]}");
  EXPECT_EQ(data.target_size, 1);
  EXPECT_TRUE(data.per_step);
  EXPECT_THAT(data.targets.values, ElementsAre(3, 4));
}

TEST(JsonLines, TokensAlonePredictTheNext) {
  const SequenceDataset data =
      Parse("{\"tokens\": [3, 1, 4]}\n{\"tokens\": [1, 5]}");
  EXPECT_THAT(data.sequences.cu_seqlens, ElementsAre(0, 2, 3));
  EXPECT_THAT(data.sequences.tokens, ElementsAre(3, 1, 1));
  EXPECT_THAT(data.targets.classes, ElementsAre(1, 4, 5));
  EXPECT_TRUE(data.per_step);
  EXPECT_TRUE(data.next_token);
}

TEST(JsonLines, WeightsCountForTargetRows) {
  EXPECT_THAT(Parse("{\"tokens\": [1, 2], \"label\": 0, \"weight\": 0.5}\n"
                    "{\"tokens\": [1, 2], \"label\": 0}")
                  .targets.weights,
              ElementsAre(0.5, 1));
  EXPECT_THAT(Parse("{\"tokens\": [1, 2], \"labels\": [0, 1], \"weight\": 3}")
                  .targets.weights,
              ElementsAre(3, 3));
  EXPECT_THAT(
      Parse("{\"tokens\": [1, 2], \"labels\": [0, 1], \"weights\": [0, 2]}")
          .targets.weights,
      ElementsAre(0, 2));
  // One a token; the first is predicted by nothing.
  EXPECT_THAT(
      Parse("{\"tokens\": [1, 2, 3], \"weights\": [9, 0, 2]}").targets.weights,
      ElementsAre(0, 2));
}

struct BadLine {
  const char* line;
  const char* message;
};

class JsonLinesErrors : public ::testing::TestWithParam<BadLine> {};

TEST_P(JsonLinesErrors, NameLineAndField) {
  const std::string error = Error(absl::StrCat(
      "{\"tokens\": [1, 2], \"label\": 0}\n\n", GetParam().line, "\n{broken"));
  EXPECT_THAT(error, HasSubstr("line 3: "));
  EXPECT_THAT(error, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    All, JsonLinesErrors,
    ::testing::Values(
        BadLine{"{\"tokens\": [1, 2], \"label\": 0", "malformed JSON"},
        BadLine{"{\"tokens\": [1, 2], \"label\": 0} 1", "malformed JSON"},
        BadLine{"{\"tokens\": [1, NaN], \"label\": 0}", "malformed JSON"},
        BadLine{"{\"tokens\": [1], \"label\": 1e999}", "number out of range"},
        BadLine{"[1, 2]", "must be an object"},
        BadLine{"7", "must be an object"},
        BadLine{"\"tokens\"", "must be an object"},
        BadLine{"{\"token\": [1]}", "unknown field \"token\""},
        BadLine{"{\"tokens\": [1], \"lable\": 1}",
                "line 3: unknown field \"lable\""},
        BadLine{"{\"tokens\": [1], \"tokens\": [1], \"label\": 0}",
                "`tokens` is there twice"},
        BadLine{"{\"tokens\": [1, \"2\"], \"label\": 0}",
                "`tokens` must hold numbers"},
        BadLine{"{\"tokens\": null, \"label\": 0}",
                "`tokens` must hold numbers"},
        BadLine{"{\"tokens\": {}, \"label\": 0}", "`tokens` must hold numbers"},
        BadLine{"{\"tokens\": [[[1]]], \"label\": 0}",
                "`tokens` is nested too deep"},
        BadLine{"{\"tokens\": [1, [2]], \"label\": 0}",
                "`tokens` mixes numbers and arrays"},
        BadLine{"{\"tokens\": [[1], 2], \"label\": 0}",
                "`tokens` mixes numbers and arrays"},
        BadLine{"{\"tokens\": [[1]], \"label\": 0}",
                "`tokens` must be an array of numbers"},
        BadLine{"{\"tokens\": 1, \"label\": 0}",
                "`tokens` must be an array of numbers"},
        BadLine{"{\"tokens\": [1.5], \"label\": 0}",
                "`tokens` must hold integers"},
        BadLine{"{\"tokens\": [1, -1], \"label\": 0}",
                "`tokens` [1] = -1 is out of range"},
        BadLine{"{\"tokens\": [99999999999], \"label\": 0}",
                "`tokens` [0] = 99999999999 is out of range"},
        BadLine{"{\"tokens\": [], \"label\": 0}", "`tokens` is empty"},
        BadLine{"{\"label\": 0}", "neither `tokens` nor `features`"},
        BadLine{"{\"tokens\": [1], \"features\": [[1]], \"label\": 0}",
                "`features` and `tokens` exclude each other"},
        BadLine{"{\"tokens\": [1], \"label\": 0, \"labels\": [0]}",
                "`labels` and `label` exclude each other"},
        BadLine{"{\"tokens\": [1], \"label\": [0]}",
                "`label` must be a number"},
        BadLine{"{\"tokens\": [1], \"label\": 0.5}",
                "`label` must hold integers"},
        BadLine{"{\"tokens\": [1], \"labels\": [0]}",
                "has `tokens` with `labels`; the lines before have `tokens` "
                "with `label`"},
        BadLine{"{\"tokens\": [1, 2]}", "has `tokens` alone"},
        BadLine{"{\"features\": [[1, 2]], \"label\": 0}",
                "has `features` of size 2 with `label`"},
        BadLine{"{\"features\": [[1, 2], [3]], \"label\": 0}",
                "`features` has 1 numbers in row 1, 2 in row 0"},
        BadLine{"{\"features\": [[], []], \"label\": 0}",
                "`features` is empty"},
        BadLine{"{\"features\": [1, 2], \"label\": 0}",
                "`features` must be an array of arrays"},
        BadLine{"{\"features\": [[1]]}", "needs one of `label`"},
        BadLine{"{\"tokens\": [1], \"label\": 0, \"weight\": -1}",
                "`weight` [0] = -1 is negative"},
        BadLine{"{\"tokens\": [1], \"label\": 0, \"weights\": [1, 1]}",
                "`weights` has 2 numbers, not 1"},
        BadLine{"{\"tokens\": [1], \"label\": 0, \"weight\": 1, \"weights\": "
                "[1]}",
                "`weights` and `weight` exclude each other"}));

TEST(JsonLines, ErrorsOfTheFirstLine) {
  EXPECT_THAT(Error(""), HasSubstr("no examples"));
  EXPECT_THAT(Error("\n \n"), HasSubstr("no examples"));
  EXPECT_THAT(Error("{\"tokens\": [1]}"), HasSubstr("no next one to predict"));
  EXPECT_THAT(Error("{\"tokens\": [1, 2], \"labels\": [0]}"),
              HasSubstr("`labels` has 1 rows; the sequence has 2 steps"));
  EXPECT_THAT(Error("{\"tokens\": [1, 2], \"target\": [[0]]}"),
              HasSubstr("`target` has 1 rows; the sequence has 2 steps"));
  EXPECT_THAT(Error("{\"tokens\": [1], \"target\": []}"),
              HasSubstr("`target` is empty"));
  EXPECT_THAT(Error("{\"features\": [[1e39]], \"label\": 0}"),
              HasSubstr("out of float32's range"));
}

TEST(JsonLines, TargetSizesMustAgree) {
  EXPECT_THAT(Error("{\"tokens\": [1], \"target\": [1, 2]}\n"
                    "{\"tokens\": [1], \"target\": [1]}"),
              HasSubstr("line 2: has `tokens` with `target` of size 1; the "
                        "lines before have `tokens` with `target` of size 2"));
}

TEST(JsonLines, LimitsTheLengthOfLines) {
  const std::string line = "{\"tokens\": [1, 2], \"label\": 0}";
  JsonLinesLimits limits;
  limits.max_line_bytes = static_cast<int64_t>(line.size()) - 1;
  EXPECT_FALSE(ParseJsonLines(line, limits).ok());
  ++limits.max_line_bytes;
  EXPECT_TRUE(ParseJsonLines(line + "\n" + line, limits).ok());
}

// Brackets without end must neither overflow a stack nor fill the memory.
TEST(JsonLines, DeepNestingEndsAtOnce) {
  EXPECT_THAT(Error("{\"tokens\": " + std::string(10'000'000, '[')),
              HasSubstr("nested too deep"));
  EXPECT_THAT(Error(std::string(10'000'000, '[')),
              HasSubstr("must be an object"));
}

}  // namespace
}  // namespace recurve
