#include "engine/train/training_run.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/model/initialize.h"
#include "engine/train/fake_model_exchange.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const char kText[] = "hello world, hello again";  // 24 characters, 13 kinds

class TrainingRunTest : public ::testing::Test {
 protected:
  TrainingRunTest() {
    const std::string folder = absl::StrCat(
        ::testing::TempDir(), "/training_run_",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder);
    DatasetStore::Options options;
    options.directory = folder;
    store_ = *DatasetStore::Open(options);
    Put("text", kText);
    Put("lines",
        "{\"tokens\": [5, 1], \"label\": 2}\n"
        "{\"tokens\": [4], \"label\": 0}\n"
        "{\"tokens\": [0], \"label\": 1}");
  }

  void Put(const std::string& id, const std::string& bytes) {
    auto upload = *store_->StartUpload(id, "");
    ASSERT_TRUE(upload->Append(bytes).ok());
    ASSERT_TRUE(upload->Commit().ok());
  }

  // A good spec for a new model on text, then `changes` merged into it.
  v1::TrainSpec Spec(const std::string& changes) {
    v1::TrainSpec spec;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        R"(model: 'models/m'
           config {
             input { token_embedding { embedding_size: 3 } }
             blocks { sru { hidden_size: 4 } }
             output { linear {} }
             loss { kind: CROSS_ENTROPY }
           }
           data { dataset: 'datasets/text' }
           format { text {} }
           loader { batch_size: 2 unroll: 3 }
           trainer { optimizer { sgd {} } learning_rate { peak: 0.1 } seed: 5 }
           max_steps: 10)",
        &spec));
    google::protobuf::TextFormat::Parser parser;
    EXPECT_TRUE(parser.MergeFromString(changes, &spec)) << changes;
    return spec;
  }
  v1::TrainSpec LinesSpec(const std::string& changes) {
    return Spec(absl::StrCat(
        "data { dataset: 'datasets/lines' } format { json_lines {} } "
        "config { output { pooling: POOLING_LAST } } loader { unroll: 0 } ",
        changes));
  }

  TrainingRun Prepare(const v1::TrainSpec& spec) {
    auto run = PrepareTrainingRun(spec, *store_, models_, max_parameters_);
    EXPECT_TRUE(run.ok()) << run.status();
    return *std::move(run);
  }
  std::string Error(
      const v1::TrainSpec& spec,
      absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
    const absl::Status status =
        PrepareTrainingRun(spec, *store_, models_, max_parameters_).status();
    EXPECT_EQ(status.code(), code) << status;
    return std::string(status.message());
  }

  std::unique_ptr<DatasetStore> store_;
  FakeModelExchange models_;
  int64_t max_parameters_ = 1'000'000;
};

TEST_F(TrainingRunTest, ANewTextModelTakesItsVocabularyFromTheText) {
  const TrainingRun run = Prepare(Spec(""));
  EXPECT_EQ(absl::StrCat(run.start.vocabulary[0], run.start.vocabulary[1]),
            " ,");
  ASSERT_EQ(run.start.vocabulary.size(), 13u);
  EXPECT_EQ(run.start.model->vocabulary_size(), 13);
  EXPECT_EQ(run.start.model->output_size(), 13);
  EXPECT_EQ(run.start.parameters, InitializeParameters(*run.start.model, 5));
  EXPECT_EQ(run.max_batches, 10);
  EXPECT_EQ(run.held_out, nullptr);
  const Batch batch = run.loader->Next();
  EXPECT_THAT(batch.sequences.cu_seqlens, ElementsAre(0, 3, 6));
}

TEST_F(TrainingRunTest, ANewModelIsMeasuredWithTheSizesOfTheData) {
  const int64_t count =
      Prepare(Spec("")).start.model->parameters().parameter_count();
  max_parameters_ = count - 1;
  EXPECT_THAT(Error(Spec(""), absl::StatusCode::kResourceExhausted),
              HasSubstr(absl::StrCat("has ", count, " parameters")));
  max_parameters_ = count;
  Prepare(Spec(""));
}

TEST_F(TrainingRunTest, AGivenVocabularySizeMustMatch) {
  EXPECT_THAT(Error(Spec("config { input { token_embedding { vocabulary_size: "
                         "14 } } }")),
              HasSubstr("14, but the text has 13 different characters"));
  Prepare(Spec("config { input { token_embedding { vocabulary_size: 13 } } }"));
}

TEST_F(TrainingRunTest, BytesHave256Ids) {
  const TrainingRun run =
      Prepare(Spec("format { text { tokenization: BYTES } }"));
  EXPECT_EQ(run.start.model->vocabulary_size(), 256);
  EXPECT_THAT(run.start.vocabulary, IsEmpty());
  EXPECT_EQ(run.loader->Next().sequences.tokens[0], 'h');
}

TEST_F(TrainingRunTest, ANewSequenceModelTakesItsSizesFromTheData) {
  const TrainingRun run = Prepare(LinesSpec(""));
  EXPECT_EQ(run.start.model->vocabulary_size(), 6);
  EXPECT_EQ(run.start.model->output_size(), 3);
  EXPECT_EQ(run.loader->batches_per_epoch(), 2);
}

TEST_F(TrainingRunTest, HoldsOutTheLastCharacters) {
  const TrainingRun run = Prepare(Spec("held_out_characters: 5"));
  std::string held_out;
  for (int32_t id : std::get<TextDataset>(*run.held_out).tokens) {
    held_out += run.start.vocabulary[id];
  }
  EXPECT_EQ(held_out, "again");
  // 19 characters are left: two streams of 9 steps.
  EXPECT_EQ(run.loader->batches_per_epoch(), 3);
  EXPECT_THAT(Error(Spec("held_out_characters: 24")),
              HasSubstr("24 of a text of 24"));
  EXPECT_THAT(Error(Spec("held_out_characters: 1")), HasSubstr("nothing"));
  EXPECT_THAT(Error(LinesSpec("held_out_characters: 2")),
              HasSubstr("only text"));
}

TEST_F(TrainingRunTest, SetsTheFractionBeforeTheHeldOutAside) {
  const TrainingRun run =
      Prepare(Spec("held_out_characters: 4 validation { fraction: 0.25 }"));
  std::string validation;
  for (int32_t id : std::get<TextDataset>(*run.validation).tokens) {
    validation += run.start.vocabulary[id];
  }
  EXPECT_EQ(validation, "llo a");  // a quarter of 20
  EXPECT_THAT(Error(Spec("validation { fraction: 0.01 }")),
              HasSubstr("validation.fraction: 0.01 of 24 tokens is 0"));
  EXPECT_THAT(Error(Spec("validation { fraction: 1 }")),
              HasSubstr("validation.fraction: 1 is not in (0, 1)"));
  EXPECT_THAT(Error(Spec("publish: BEST")), HasSubstr("publish: BEST"));
}

TEST_F(TrainingRunTest, GoesOnFromAVersionWithItsVocabulary) {
  const TrainableModel newest = Prepare(Spec("")).start;
  const TrainableModel older = Prepare(Spec("trainer { seed: 6 }")).start;
  models_.Put("models/m", newest);
  models_.Put("models/m/versions/1", older);
  v1::TrainSpec spec = Spec("");
  spec.clear_config();
  EXPECT_EQ(Prepare(spec).start.parameters, newest.parameters);
  spec.set_from_version("models/m/versions/1");
  EXPECT_EQ(Prepare(spec).start.parameters, older.parameters);
  Put("foreign", "hello zoo");
  spec.mutable_data()->set_dataset("datasets/foreign");
  EXPECT_THAT(Error(spec), HasSubstr("'z' (U+007A) at byte 6"));
  spec.set_from_version("models/m/versions/9");
  Error(spec, absl::StatusCode::kNotFound);
}

TEST_F(TrainingRunTest, CountsWholeStepsOnly) {
  // 23 predictions, two streams of 11 steps, 4 batches an epoch.
  EXPECT_EQ(Prepare(Spec("max_steps: 0 max_epochs: 3")).max_batches, 12);
  EXPECT_EQ(Prepare(Spec("max_steps: 5 max_epochs: 3")).max_batches, 5);
  EXPECT_EQ(Prepare(Spec("max_steps: 0 max_epochs: 3 "
                         "trainer { accumulation_steps: 5 }"))
                .max_batches,
            10);
  EXPECT_EQ(Prepare(Spec("max_steps: 7 trainer { accumulation_steps: 5 }"))
                .max_batches,
            35);
  EXPECT_EQ(Prepare(Spec("max_steps: 0 max_seconds: 3")).max_batches,
            std::nullopt);
  EXPECT_THAT(Error(Spec("max_steps: 0 max_epochs: 1 "
                         "trainer { accumulation_steps: 5 }")),
              HasSubstr("less than one step"));
  const TrainingRun longest =
      Prepare(Spec("max_steps: 1099511627776 max_epochs: 1099511627776 "
                   "trainer { accumulation_steps: 1048576 }"));
  EXPECT_EQ(longest.max_batches,
            (int64_t{1} << 40) * 4 / (1 << 20) * (1 << 20));
}

TEST_F(TrainingRunTest, BidirectionalModelsReadTextInOneBatchOnly) {
  const std::string both =
      "config { blocks { name: 'second' sru { hidden_size: 4 "
      "bidirectional: true } } } ";
  EXPECT_THAT(Error(Spec(both)), HasSubstr("bidirectional"));
  Prepare(Spec(both + "loader { unroll: 11 }"));
}

TEST_F(TrainingRunTest, NamesTheFieldThatIsWrong) {
  struct Case {
    const char* changes;
    const char* message;
  };
  for (const Case& c : {
           Case{"model: 'm'", "model: \"m\" is not models/NAME"},
           Case{"model: 'models/M'", "model"},
           Case{"max_steps: 0", "one of max_steps"},
           Case{"max_steps: -1", "max_steps: -1"},
           Case{"max_epochs: -1", "max_epochs: -1"},
           Case{"max_seconds: -1", "max_seconds: -1"},
           Case{"max_steps: 9223372036854775807", "max_steps: 922"},
           Case{"report_every_steps: -1", "report_every_steps: -1"},
           Case{"held_out_characters: -1", "held_out_characters: -1"},
           Case{"from_version: 'models/m/versions/1'", "exclude each other"},
           Case{"loader { batch_size: 0 }", "loader.batch_size: 0"},
           Case{"loader { unroll: 0 }", "loader.unroll: 0"},
           Case{"data { local_file: 'f' }", "local_file"},
           Case{"trainer { accumulation_steps: -1 }", "accumulation_steps"},
           Case{"format { text { tokenization: VOCABULARY } }", "VOCABULARY"},
           Case{"config { blocks { } }", "blocks"},
       }) {
    EXPECT_THAT(Error(Spec(c.changes)), HasSubstr(c.message)) << c.changes;
  }
  v1::TrainSpec spec = Spec("");
  spec.clear_data();
  EXPECT_THAT(Error(spec), HasSubstr("data: "));
  spec = Spec("");
  spec.clear_format();
  EXPECT_THAT(Error(spec), HasSubstr("format: "));
}

// Specs are recorded, again and again.
TEST_F(TrainingRunTest, RefusesASpecThatIsTooLarge) {
  v1::TrainSpec spec = Spec("");
  spec.GetReflection()->MutableUnknownFields(&spec)->AddLengthDelimited(
      1000, std::string(1 << 18, 'x'));
  EXPECT_THAT(std::string(CheckTrainSpec(spec).message()),
              HasSubstr("spec: 262"));
}

// A config that is wrong whatever the data are is refused before any is read.
TEST_F(TrainingRunTest, ChecksACompleteConfigWithoutData) {
  v1::TrainSpec spec = Spec(
      "config { input { token_embedding { vocabulary_size: 12 } } output { "
      "linear { size: 12 } } } data { dataset: 'datasets/none' }");
  EXPECT_TRUE(CheckTrainSpec(spec).ok()) << CheckTrainSpec(spec);
  spec.mutable_config()->mutable_blocks(0)->mutable_sru()->set_dropout(2);
  EXPECT_THAT(std::string(CheckTrainSpec(spec).message()),
              HasSubstr("dropout"));
}

}  // namespace
}  // namespace recurve
