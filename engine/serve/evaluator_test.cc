#include "engine/serve/evaluator.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/file.h"
#include "engine/data/vocabulary.h"
#include "engine/model/config.h"
#include "engine/model/executor_test_util.h"
#include "engine/model/library_import.h"
#include "engine/model/safetensors.h"
#include "engine/schedule/device_spec.h"
#include "gtest/gtest.h"
#include "kernels/precision.h"

namespace recurve {
namespace {

constexpr char kTokens[] = R"(
  input { token_embedding { vocabulary_size: 17 embedding_size: 9 } }
  blocks { sru { hidden_size: 12 } }
  output { linear { size: 17 } }
  loss { kind: CROSS_ENTROPY })";

constexpr char kNumbers[] = R"(
  input { features { size: 4 } }
  blocks { qrnn { hidden_size: 10 } }
  output { linear { size: 3 } }
  loss { kind: MEAN_SQUARED_ERROR })";

ModelHandle Version(const char* config) {
  const TestExecutor e(config);
  return ModelVersion::InMemory(*Model::Create(e.model().config()),
                                e.parameters());
}

struct Fixture {
  explicit Fixture(const std::string& specs = "cpu:1", int64_t rows = 1024)
      : devices(*ParseDevices(specs)),
        runner(devices, {.max_batch_rows = rows}),
        evaluator(runner, {}) {}
  DevicePool devices;
  BatchRunner runner;
  Evaluator evaluator;
};

// A checkpoint that was trained with the library, and its held-out text.
class CheckpointTest : public testing::TestWithParam<const char*> {
 protected:
  static std::string Path(const std::string& name) {
    return "tests/testdata/checkpoints/" + name;
  }
  static std::string Read(const std::string& name) {
    return *ReadFile(Path(name), 1 << 20);
  }

  CheckpointTest() {
    const std::string stem = std::string(GetParam()) + "_charlm";
    const auto model =
        *Model::Create(*ParseModelConfig(Read(stem + ".textproto")));
    const Safetensors file = *Safetensors::Open(Path(stem + ".safetensors"));
    version_ = ModelVersion::InMemory(
        model, ImportLibrary(*model, file.tensors(), {})->parameters);
    const Vocabulary vocabulary = *Vocabulary::FromJson(Read("vocab.json"));
    tokens_ = *Tokenize(Read("heldout.txt"), v1::DataFormat::Text::CHARACTERS,
                        &vocabulary);
  }

  double Loss(int64_t chunk_rows, bool carry_state,
              Precision precision = Precision::kFloat32) {
    const auto evaluation = fixture_.evaluator.EvaluateText(
        version_->At(precision), tokens_, {chunk_rows, carry_state}, {});
    EXPECT_TRUE(evaluation.ok()) << evaluation.status();
    EXPECT_EQ(evaluation->rows, 24000);
    return evaluation->loss;
  }

  Fixture fixture_{"cpu:1,cpu:1"};
  ModelHandle version_;
  std::vector<int32_t> tokens_;
};

// The figures of tests/testdata/checkpoints/README.md.
TEST_P(CheckpointTest, LossIsTheLibrarys) {
  const bool sru = std::string(GetParam()) == "sru";
  EXPECT_NEAR(Loss(1000, true), sru ? 1.2137655442 : 1.2396027173, 1e-5);
  EXPECT_NEAR(Loss(7, true), sru ? 1.2137655504 : 1.2396027194, 1e-5);
  EXPECT_NEAR(Loss(0, false), sru ? 1.2137655551 : 1.2396027201, 1e-5);
  EXPECT_NEAR(Loss(1000, false), sru ? 1.2183331376 : 1.2448642512, 1e-5);
  EXPECT_NEAR(Loss(50, false), sru ? 1.3201398295 : 1.3419726864, 1e-5);
}

TEST_P(CheckpointTest, ChunksDoNotMoveTheLoss) {
  EXPECT_EQ(Loss(1000, true), Loss(7, true));
  EXPECT_EQ(Loss(1000, true), Loss(0, false));
}

// Relative to float32; docs/versions.md has what is measured.
TEST_P(CheckpointTest, LowerPrecisionsHardlyMoveTheLoss) {
  const double exact = Loss(1000, true);
  const double bf16 = Loss(1000, true, Precision::kBfloat16);
  const double int8 = Loss(1000, true, Precision::kInt8);
  EXPECT_NE(bf16, exact);
  EXPECT_NEAR(bf16, exact, 0.001 * exact);
  EXPECT_NE(int8, exact);
  EXPECT_NE(int8, bf16);
  EXPECT_NEAR(int8, exact, 0.005 * exact);
  EXPECT_EQ(int8, Loss(7, true, Precision::kInt8));
  EXPECT_EQ(bf16, Loss(7, true, Precision::kBfloat16));
}

INSTANTIATE_TEST_SUITE_P(Libraries, CheckpointTest,
                         testing::Values("sru", "qrnn"));

TEST(EvaluatorTest, WeightsAndIgnoredTargetsCountAsTheySay) {
  Fixture fixture;
  const ModelHandle version = Version(kTokens);
  const SequenceBatch batch = RandomBatch(*version->model, {3, 2}, 1);
  Targets targets;
  targets.classes = {1, -1, 2, 3, 4};
  targets.weights = {1, 1, 0, 2, 0};
  const Evaluation mixed =
      *fixture.evaluator.EvaluateBatch(version, batch, &targets, {});
  EXPECT_EQ(mixed.weight, 3);
  EXPECT_EQ(mixed.rows, 5);
  targets.weights = {1, 0, 0, 0, 0};
  const double first =
      fixture.evaluator.EvaluateBatch(version, batch, &targets, {})->loss;
  targets.weights = {0, 0, 0, 1, 0};
  const double fourth =
      fixture.evaluator.EvaluateBatch(version, batch, &targets, {})->loss;
  EXPECT_NEAR(mixed.loss, (first + 2 * fourth) / 3, 1e-12);
  targets.weights = {0, 1, 0, 0, 0};
  EXPECT_EQ(fixture.evaluator.EvaluateBatch(version, batch, &targets, {})
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(EvaluatorTest, WithoutTargetsTheNextTokenIsPredicted) {
  Fixture fixture;
  const ModelHandle version = Version(kTokens);
  const SequenceBatch batch = RandomBatch(*version->model, {3, 2}, 1);
  Targets targets;
  targets.classes = {batch.tokens[1], batch.tokens[2], -1, batch.tokens[4], -1};
  const Evaluation given =
      *fixture.evaluator.EvaluateBatch(version, batch, &targets, {});
  const Evaluation made =
      *fixture.evaluator.EvaluateBatch(version, batch, nullptr, {});
  EXPECT_EQ(made.loss, given.loss);
  EXPECT_EQ(made.weight, 3);
}

TEST(EvaluatorTest, SquaredErrorIsTheMeanOverColumns) {
  Fixture fixture;
  const ModelHandle version = Version(kNumbers);
  const SequenceBatch batch = RandomBatch(*version->model, {4}, 1);
  TestExecutor e(kNumbers);
  ForwardArgs args;
  args.batch = &batch;
  const std::vector<float> output = e.Output(args);
  Targets targets;
  targets.values.assign(12, 0.25f);
  double sum = 0;
  for (float y : output) sum += (y - 0.25) * (y - 0.25);
  EXPECT_NEAR(
      fixture.evaluator.EvaluateBatch(version, batch, &targets, {})->loss,
      sum / 12, 1e-12);
}

TEST(EvaluatorTest, ReportsWhatDoesNotFit) {
  Fixture fixture;
  const auto text = [&](const char* config, std::vector<int32_t> tokens,
                        TextOptions options) {
    return fixture.evaluator.EvaluateText(Version(config), tokens, options, {})
        .status();
  };
  using absl::StatusCode;
  EXPECT_EQ(text(kTokens, {1}, {}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(text(kTokens, {1, 2}, {.chunk_rows = -1}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(text(kTokens, {1, 17}, {}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(text(kNumbers, {1, 2}, {}).code(), StatusCode::kInvalidArgument);
  const std::string no_loss =
      std::string(kTokens).substr(0, std::string(kTokens).find("loss"));
  EXPECT_EQ(text(no_loss.c_str(), {1, 2}, {}).code(),
            StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace recurve
