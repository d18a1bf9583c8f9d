#include "engine/data/dataset.h"

#include <filesystem>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::DataFormat Format(const std::string& textproto) {
  v1::DataFormat format;
  EXPECT_TRUE(
      google::protobuf::TextFormat::ParseFromString(textproto, &format));
  return format;
}

std::shared_ptr<const Model> MakeModel(const std::string& input,
                                       const std::string& output,
                                       const std::string& loss) {
  v1::ModelConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "input {" + input + "} blocks { sru { hidden_size: 4 } } output {" +
          output + "} loss { kind: " + loss + " }",
      &config));
  auto model = Model::Create(config);
  EXPECT_TRUE(model.ok()) << model.status();
  return *model;
}

const char kTokens[] =
    "token_embedding { vocabulary_size: 10 embedding_size: 4 }";
const char kFeatures[] = "features { size: 2 }";
const char kPooled[] = "pooling: POOLING_LAST linear { size: 3 }";
const char kStepwise[] = "linear { size: 10 }";

Dataset JsonLines(const std::string& line) {
  auto dataset = ParseDataset({line, ""}, Format("json_lines {}"), nullptr);
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  return *std::move(dataset);
}

TEST(Dataset, VocabularyOfText) {
  EXPECT_THAT(*VocabularyOfText("hello", Format("text {}").text()),
              ElementsAre("e", "h", "l", "o"));
  EXPECT_THAT(
      *VocabularyOfText("hello", Format("text { tokenization: BYTES }").text()),
      IsEmpty());
  EXPECT_EQ(VocabularyOfText("hello",
                             Format("text { tokenization: VOCABULARY }").text())
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Dataset, ParsesByFormat) {
  const Vocabulary vocabulary = *Vocabulary::OfCharacters("helo");
  const auto text = ParseDataset({"hello", ""}, Format("text {}"), &vocabulary);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_THAT(std::get<TextDataset>(*text).tokens, ElementsAre(1, 0, 2, 2, 3));
  const Dataset lines = JsonLines("{\"tokens\": [1], \"label\": 2}");
  EXPECT_THAT(std::get<SequenceDataset>(lines).targets.classes, ElementsAre(2));
  for (const v1::DataFormat& format : {Format(""), Format("npy {}")}) {
    EXPECT_EQ(ParseDataset({"hello", ""}, format, &vocabulary).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(Dataset, ReadsTheFileAndItsTargets) {
  const std::string folder = ::testing::TempDir() + "/dataset_test";
  std::filesystem::remove_all(folder);
  DatasetStore::Options options;
  options.directory = folder;
  auto store = DatasetStore::Open(options);
  ASSERT_TRUE(store.ok());
  for (const char* id : {"lines", "empty"}) {
    auto upload = (*store)->StartUpload(id, "");
    if (id == std::string("lines")) {
      ASSERT_TRUE((*upload)->Append("{\"tokens\": [7, 8]}").ok());
    }
    ASSERT_TRUE((*upload)->Commit().ok());
  }
  v1::DataSource source;
  source.set_dataset("datasets/lines");
  const auto dataset =
      ReadDataset(**store, source, Format("json_lines {}"), nullptr);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  EXPECT_THAT(std::get<SequenceDataset>(*dataset).sequences.tokens,
              ElementsAre(7));
  EXPECT_THAT(
      std::string(
          ReadDataset(**store, source,
                      Format("npy { targets { dataset: 'datasets/empty' } }"),
                      nullptr)
              .status()
              .message()),
      HasSubstr("an empty file"));
}

struct Misfit {
  const char* line;
  const char* input;
  const char* output;
  const char* loss;
  const char* message;  // empty: they fit
};

class DatasetMisfits : public ::testing::TestWithParam<Misfit> {};

TEST_P(DatasetMisfits, AreNamed) {
  const Misfit& misfit = GetParam();
  const auto model = MakeModel(misfit.input, misfit.output, misfit.loss);
  const absl::Status status = CheckDataset(JsonLines(misfit.line), *model);
  if (*misfit.message == '\0') {
    EXPECT_TRUE(status.ok()) << status;
    return;
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(misfit.message));
}

INSTANTIATE_TEST_SUITE_P(
    All, DatasetMisfits,
    ::testing::Values(
        Misfit{"{\"tokens\": [9], \"label\": 2}", kTokens, kPooled,
               "CROSS_ENTROPY", ""},
        Misfit{"{\"tokens\": [9, 1]}", kTokens, kStepwise, "CROSS_ENTROPY", ""},
        Misfit{"{\"features\": [[1, 2]], \"target\": [1, 2, 3]}", kFeatures,
               kPooled, "MEAN_SQUARED_ERROR", ""},
        Misfit{"{\"tokens\": [10], \"label\": 2}", kTokens, kPooled,
               "CROSS_ENTROPY", "10"},
        Misfit{"{\"tokens\": [9], \"label\": 3}", kTokens, kPooled,
               "CROSS_ENTROPY", "3"},
        Misfit{"{\"tokens\": [1], \"label\": 2}", kFeatures, kPooled,
               "CROSS_ENTROPY", "tokens; the model takes features"},
        Misfit{"{\"features\": [[1, 2]], \"label\": 2}", kTokens, kPooled,
               "CROSS_ENTROPY", "features; the model takes tokens"},
        Misfit{"{\"features\": [[1]], \"label\": 2}", kFeatures, kPooled,
               "CROSS_ENTROPY", "features of size 1; the model's have 2"},
        Misfit{"{\"tokens\": [1], \"labels\": [2]}", kTokens, kPooled,
               "CROSS_ENTROPY", "output is pooled"},
        Misfit{"{\"tokens\": [1], \"label\": 2}", kTokens, kStepwise,
               "CROSS_ENTROPY", "an output a step"},
        Misfit{"{\"features\": [[1, 2]], \"target\": [1, 2]}", kFeatures,
               kPooled, "MEAN_SQUARED_ERROR",
               "targets of size 2; the model has 3 outputs"},
        Misfit{"{\"features\": [[1, 2]], \"label\": 2}", kFeatures, kPooled,
               "MEAN_SQUARED_ERROR", "MEAN_SQUARED_ERROR"}));

TEST(Dataset, TextNeedsANextTokenModel) {
  const Dataset text = TextDataset{{1, 9, 3}};
  EXPECT_TRUE(
      CheckDataset(text, *MakeModel(kTokens, kStepwise, "CROSS_ENTROPY")).ok());
  const auto error = [](const Dataset& data, const char* input,
                        const char* output, const char* loss) {
    return std::string(
        CheckDataset(data, *MakeModel(input, output, loss)).message());
  };
  EXPECT_THAT(error(text, kFeatures, kStepwise, "CROSS_ENTROPY"),
              HasSubstr("input is features"));
  EXPECT_THAT(error(text, kTokens, kPooled, "CROSS_ENTROPY"),
              HasSubstr("next-token prediction"));
  EXPECT_THAT(error(text, kTokens, kStepwise, "MEAN_SQUARED_ERROR"),
              HasSubstr("next-token prediction"));
  EXPECT_THAT(error(TextDataset{{1, 10}}, kTokens, kStepwise, "CROSS_ENTROPY"),
              HasSubstr("token 10 at place 1"));
  EXPECT_THAT(error(text, kTokens, "linear { size: 5 }", "CROSS_ENTROPY"),
              HasSubstr("token 9 at place 1"));
}

}  // namespace
}  // namespace recurve
