#include "client/cli/plan.h"

#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve::cli {
namespace {

using ::testing::HasSubstr;

constexpr char kModel[] = R"(
  input { token_embedding { vocabulary_size: 64 embedding_size: 32 } }
  blocks { sru { hidden_size: 32 num_layers: 1 } }
  output { linear { size: 64 } }
  loss { kind: CROSS_ENTROPY })";

std::string Write(const std::string& name, const std::string& text) {
  const std::string path = absl::StrCat(std::getenv("TEST_TMPDIR"), "/", name);
  std::ofstream(path) << text;
  return path;
}

PlanOptions SpecOptions() {
  PlanOptions options;
  options.file = Write(
      "spec", absl::StrCat("model: 'models/lm' config { ", kModel,
                           " } loader { batch_size: 64 unroll: 32 } trainer { "
                           "optimizer { sgd { momentum: 0.9 } } learning_rate "
                           "{ peak: 1 } micro_batch_rows: 256 }"));
  return options;
}

std::string Message(const absl::Status& status) {
  return std::string(status.message());
}

// 64 x 32 of the embedding, 32 x 96 of the projection, 4 x 32 of SRU's v and
// bias, 1 of scale_x in a unit of its own, 64 x 32 and 64 of the output.
constexpr int64_t kWeights = 4 * (2048 + 3072 + 64 + 64 + 16 + 2048 + 64);

TEST(MakePlan, OfAConfigIsInference) {
  PlanOptions options;
  options.file = Write("config", kModel);
  options.rows = 100;
  options.sequences = 4;
  const auto report = MakePlan(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(report->training);
  const MemoryPlan& plan = report->devices[0].plan;
  // The projection once more, packed.
  EXPECT_EQ(plan.weights, kWeights + 4 * 3072);
  EXPECT_EQ(plan.gradients + plan.optimizer, 0);
  // Offsets, tokens and states, rows in two places, logits, and for the loss
  // targets, weights and losses.
  EXPECT_EQ(plan.activations,
            64 + 448 + 512 + 100 * 4 * (2 * 32 + 64) + 3 * 448);
  EXPECT_THAT(ToText(*report), HasSubstr("100 rows in 4 sequences"));
}

TEST(MakePlan, PackedWeightsAreOfThePrecision) {
  PlanOptions options;
  options.file = Write("config", kModel);
  options.precision = "int8";
  options.devices = "cpu:1,cuda:0";
  const auto report = MakePlan(options);
  ASSERT_TRUE(report.ok()) << report.status();
  // Four rows in a word; two rows more, for scales and sums.
  EXPECT_EQ(report->devices[0].plan.weights, kWeights + 4 * (32 / 4 + 2) * 96);
  EXPECT_FALSE(report->devices[1].takes_part);
  options.devices = "cuda:0";
  EXPECT_TRUE(absl::IsFailedPrecondition(MakePlan(options).status()));
  options.precision = "int4";
  EXPECT_THAT(Message(MakePlan(options).status()),
              HasSubstr("--precision: is `int4`"));
}

TEST(MakePlan, OfASpecIsTrainingOfItsBatches) {
  PlanOptions options = SpecOptions();
  options.devices = "cpu:1,cpu:2:memory=1GiB,cpu:1:memory=1MiB";
  const auto report = MakePlan(options);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->training);
  EXPECT_EQ(report->rows, 2048);
  EXPECT_EQ(report->sequences, 64);
  EXPECT_EQ(report->micro_batches, 8);
  EXPECT_EQ(report->devices[0].plan.optimizer, kWeights);
  EXPECT_TRUE(report->devices[1].takes_part);
  EXPECT_EQ(report->devices[1].plan.workspace,
            2 * report->devices[0].plan.workspace);
  EXPECT_FALSE(report->devices[2].takes_part);

  const nlohmann::json json = ToJson(*report);
  EXPECT_EQ(json["micro_batch_rows"], 256);
  EXPECT_EQ(json["devices"][0]["planned"]["weights_bytes"], kWeights);
  EXPECT_EQ(json["devices"][0]["planned_bytes"],
            report->devices[0].plan.total());
  EXPECT_EQ(json["devices"][1]["budget_bytes"], 1 << 30);
  EXPECT_EQ(json["devices"][1]["serving_floor_bytes"],
            ((1 << 30) - report->devices[1].plan.workspace) / 5);
  const std::string text = ToText(*report);
  EXPECT_THAT(text, HasSubstr("at most 8 micro-batches of 256 rows"));
  EXPECT_THAT(text, HasSubstr("takes no part"));
}

TEST(MakePlan, RefusesWhatTheServerWouldRefuse) {
  PlanOptions options = SpecOptions();
  options.devices = "cpu:1:memory=2758KiB";
  options.serving_memory_share = 0;
  const absl::Status status = MakePlan(options).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(Message(status), HasSubstr("budget of devices/0 2.7 MiB; the "
                                         "largest trainer.micro_batch_rows "
                                         "that fits is "));
  options.serving_memory_share = 0.25;
  EXPECT_THAT(Message(MakePlan(options).status()),
              HasSubstr("budget of devices/0 2.7 MiB less 96.0 KiB for serving "
                        "(--serving_memory_share); "));
}

TEST(MakePlan, KeepsServingsPartFromTrainingAlone) {
  PlanOptions options = SpecOptions();
  options.devices = "cpu:1:memory=1GiB";
  const MemoryPlan plan = MakePlan(options)->devices[0].plan;
  const int64_t workspace = plan.workspace;
  // Just enough, and nothing to keep.
  options.devices = absl::StrCat("cpu:1:memory=", plan.total());
  EXPECT_TRUE(absl::IsResourceExhausted(MakePlan(options).status()));
  options.serving_memory_share = 0;
  EXPECT_TRUE(MakePlan(options).ok());
  // As much again for serving.
  options.devices = absl::StrCat("cpu:1:memory=", 2 * plan.total() - workspace);
  options.serving_memory_share = 0.5;
  EXPECT_TRUE(MakePlan(options).ok());
  options.mode = "inference";
  EXPECT_EQ(MakePlan(options)->devices[0].serving_floor, 0);
}

TEST(MakePlan, KnowsCudaDevicesWithoutHavingAny) {
  PlanOptions options = SpecOptions();
  options.devices =
      "cpu:1,cuda:0:memory=80GiB:products=tf32,cuda:0:products=tf32,cuda:1";
  const auto report = MakePlan(options);
  ASSERT_TRUE(report.ok()) << report.status();
  // The CPU beside them serves alone.
  EXPECT_FALSE(report->devices[0].takes_part);
  for (const int rank : {1, 2}) {
    EXPECT_TRUE(report->devices[rank].takes_part);
    EXPECT_EQ(report->devices[rank].plan.workspace, cuda::kWorkspaceBytes);
    EXPECT_GE(report->devices[rank].plan.weights, kWeights);
  }
  // Nor does one that multiplies otherwise train with them.
  EXPECT_FALSE(report->devices[3].takes_part);
}

TEST(MakePlan, TakesSizesThatTheFileLeavesToTheData) {
  PlanOptions options;
  options.file = Write("config", kModel);
  const MemoryPlan given = MakePlan(options)->devices[0].plan;
  std::string open = kModel;
  for (size_t at; (at = open.find("size: 64")) != std::string::npos;) {
    open.replace(at, 8, "size: 0");
  }
  options.file = Write("open", open);
  EXPECT_THAT(Message(MakePlan(options).status()),
              HasSubstr("--vocabulary_size"));
  options.vocabulary_size = 64;
  EXPECT_EQ(MakePlan(options)->devices[0].plan, given);
  options.output_size = 65;
  EXPECT_GT(MakePlan(options)->devices[0].plan.weights, given.weights);
}

TEST(MakePlan, SaysWhatIsWrong) {
  PlanOptions options = SpecOptions();
  options.mode = "serving";
  EXPECT_THAT(Message(MakePlan(options).status()), HasSubstr("--mode"));
  options = SpecOptions();
  options.rows = 3;
  EXPECT_THAT(Message(MakePlan(options).status()), HasSubstr("--sequences"));
  options.file = Write("neither", "rows: 3");
  EXPECT_THAT(Message(MakePlan(options).status()), HasSubstr("no ModelConfig"));
  options.file = Write("no_config", "model: 'models/lm' loader {}");
  EXPECT_THAT(Message(MakePlan(options).status()), HasSubstr("no config"));
  options.file = Write("open",
                       "input { features {} } blocks { sru { "
                       "hidden_size: 3 } }");
  EXPECT_THAT(Message(MakePlan(options).status()),
              HasSubstr("sizes that training would take from the data"));
  options.file = "/nowhere";
  EXPECT_TRUE(absl::IsNotFound(MakePlan(options).status()));
}

}  // namespace
}  // namespace recurve::cli
