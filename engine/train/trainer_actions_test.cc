// Accumulating and updating as separate calls, and streams with names.
#include <cmath>
#include <string>
#include <vector>

#include "engine/train/learning_rate.h"
#include "engine/train/trainer.h"
#include "engine/train/trainer_test_util.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::HasSubstr;

constexpr char kModel[] =
    "input { token_embedding { vocabulary_size: 12 embedding_size: 8 } } "
    "blocks { sru { hidden_size: 16 dropout: 0.2 } } "
    "output { linear { size: 12 } } loss { kind: CROSS_ENTROPY }";
constexpr char kConfig[] =
    "optimizer { adam {} } learning_rate { peak: 0.01 step_decay { "
    "every_steps: 1 factor: 0.5 } } micro_batch_rows: 8 max_gradient_norm: 1 "
    "seed: 3 ";
constexpr char kThree[] = "accumulation_steps: 3 ";

constexpr char kBothWays[] =
    "input { token_embedding { vocabulary_size: 12 embedding_size: 8 } } "
    "blocks { sru { hidden_size: 8 bidirectional: true } } "
    "output { linear { size: 12 } } loss { kind: CROSS_ENTROPY }";

StepCall OptimizerStep() {
  StepCall call;
  call.action = StepAction::kOptimizerStep;
  return call;
}

// Call i of a training: sequences of other lengths each time.
Call CallOf(const Model& model, int i) {
  return RandomCall(model, {3 + i % 3, 4, 9, 2, 6, 5}, i);
}

StepResult Do(TestTrainer& trainer, const Call& call, StepAction action) {
  StepCall step = ToStepCall(call);
  step.action = action;
  const auto result = trainer->Step(step);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *result : StepResult();
}

// Two optimizer steps of three calls, by whole Steps.
std::vector<float> WeightsBySteps() {
  TestTrainer trainer("cpu:1", kModel, std::string(kConfig) + kThree);
  for (int i = 0; i < 6; ++i) trainer.Step(CallOf(trainer.model(), i));
  return trainer.Parameters();
}

TEST(TrainerActions, AccumulatingThenUpdatingIsStepBitForBit) {
  const auto expected = WeightsBySteps();
  for (const char* devices : {"cpu:1", "cpu:1,cpu:1", "cpu:1,cpu:2,cpu:1"}) {
    TestTrainer trainer(devices, kModel, kConfig);
    for (int i = 0; i < 6; ++i) {
      const StepResult result =
          Do(trainer, CallOf(trainer.model(), i), StepAction::kForwardBackward);
      EXPECT_FALSE(result.updated);
      EXPECT_EQ(result.accumulated_calls, i % 3 + 1);
      EXPECT_EQ(trainer->accumulated_calls(), i % 3 + 1);
      EXPECT_EQ(result.step, i / 3);
      if (i % 3 < 2) continue;
      const auto update = trainer->Step(OptimizerStep());
      ASSERT_TRUE(update.ok()) << update.status();
      EXPECT_TRUE(update->updated);
      EXPECT_GT(update->gradient_norm, 0);
      EXPECT_EQ(update->step, i / 3 + 1);
      EXPECT_EQ(update->accumulated_calls, 0);
      EXPECT_EQ(update->rows, 0);
      EXPECT_EQ(update->loss, 0);
    }
    EXPECT_TRUE(SameBits(trainer.Parameters(), expected)) << devices;
  }
}

TEST(TrainerActions, TheLastCallMayUpdateToo) {
  TestTrainer trainer("cpu:1,cpu:1", kModel, kConfig);
  for (int i = 0; i < 6; ++i) {
    Do(trainer, CallOf(trainer.model(), i),
       i % 3 < 2 ? StepAction::kForwardBackward
                 : StepAction::kForwardBackwardOptimizerStep);
  }
  EXPECT_TRUE(SameBits(trainer.Parameters(), WeightsBySteps()));
}

TEST(TrainerActions, StepUpdatesOnceEnoughCallsHaveCome) {
  TestTrainer trainer("cpu:1", kModel, std::string(kConfig) + kThree);
  const Call call = CallOf(trainer.model(), 0);
  for (int i = 0; i < 4; ++i) Do(trainer, call, StepAction::kForwardBackward);
  EXPECT_TRUE(Do(trainer, call, StepAction::kStep).updated);
  EXPECT_FALSE(Do(trainer, call, StepAction::kStep).updated);
}

TEST(TrainerActions, AnUpdateNeedsAGradientAndTakesNoBatch) {
  TestTrainer trainer("cpu:1", kModel, kConfig);
  EXPECT_EQ(trainer->Step(OptimizerStep()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const Call call = CallOf(trainer.model(), 0);
  Do(trainer, call, StepAction::kForwardBackward);
  StepCall with_batch = ToStepCall(call);
  with_batch.action = StepAction::kOptimizerStep;
  EXPECT_EQ(trainer->Step(with_batch).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(trainer->Step(OptimizerStep()).ok());
  EXPECT_EQ(trainer->Step(OptimizerStep()).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(TrainerActions, ARateOfTheCallReplacesTheSchedules) {
  TestTrainer trainer("cpu:1", kModel, kConfig);
  const Call call = CallOf(trainer.model(), 0);
  StepCall step = ToStepCall(call);
  step.learning_rate = 0.25;
  EXPECT_EQ(trainer->Step(step)->learning_rate, 0.25);
  step.learning_rate.reset();
  EXPECT_EQ(trainer->Step(step)->learning_rate,
            LearningRate(trainer->config().learning_rate(), 2));
  // 1e39 is none of float32, which devices count in.
  for (const double rate : {-1.0, 1e39, double{INFINITY}, double{NAN}}) {
    step.learning_rate = rate;
    EXPECT_EQ(trainer->Step(step).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(TrainerActions, ASkippedStepDropsWhatHasAccumulated) {
  TestTrainer skipping("cpu:1,cpu:1", kModel, kConfig);
  const auto before = skipping.Parameters();
  Do(skipping, CallOf(skipping.model(), 7), StepAction::kForwardBackward);
  skipping->SkipStep();
  EXPECT_EQ(skipping->step(), 1);
  EXPECT_EQ(skipping->accumulated_calls(), 0);
  EXPECT_TRUE(SameBits(skipping.Parameters(), before));
  const auto state = skipping->Save();
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->skipped_steps, 1);
  EXPECT_TRUE(state->streams.last.empty());
  // The schedule and the random numbers are those of step 2, Adam's bias
  // correction that of a first step: its update is of the rate's size.
  const StepResult result = Do(skipping, CallOf(skipping.model(), 1),
                               StepAction::kForwardBackwardOptimizerStep);
  EXPECT_EQ(result.step, 2);
  EXPECT_FLOAT_EQ(result.learning_rate, 0.005);
  EXPECT_NEAR(MaxDifference(skipping.Parameters(), before), 0.005, 1e-5);
}

// --- Streams with names ---

// Three streams in turns of two a call, by name and by hand.
TEST(TrainerNamedStreams, GoOnWhereTheirNameEnded) {
  TestTrainer named("cpu:1,cpu:1", kModel, kConfig);
  TestTrainer positional("cpu:1", kModel, kConfig);
  const Model& model = named.model();
  const auto step = [&](TestTrainer& trainer, const Call& call,
                        const std::vector<std::string>& names) {
    StepCall step = ToStepCall(call);
    step.stream_ids = names;
    step.action = StepAction::kForwardBackward;
    const auto result = trainer->Step(step);
    ASSERT_TRUE(result.ok()) << result.status();
  };
  const Call first = RandomCall(model, {5, 7}, 1);
  const Call second = RandomCall(model, {4, 6}, 2);
  Call third = RandomCall(model, {3, 8}, 3);
  step(named, first, {"a", "b"});
  step(named, second, {"c", "a"});
  step(named, third, {"a", "b"});

  const auto streams = named->Save()->streams;
  EXPECT_EQ(streams.named.at("a").position, 5 + 6 + 3);
  EXPECT_EQ(streams.named.at("b").position, 7 + 8);
  EXPECT_EQ(streams.named.at("c").position, 4);

  // The same states by position: a batch goes on where the one before ended.
  step(positional, first, {});
  auto state = *positional->Save();
  const Stream b = state.streams.last[1];
  state.streams.last = {{}, state.streams.last[0]};
  ASSERT_TRUE(positional->Load(state, false).ok());
  Call continued = second;
  continued.continue_streams = true;
  step(positional, continued, {});
  state = *positional->Save();
  state.streams.last = {state.streams.last[1], b};
  ASSERT_TRUE(positional->Load(state, false).ok());
  third.continue_streams = true;
  step(positional, third, {});
  EXPECT_EQ(positional->Save()->accumulated_gradient,
            named->Save()->accumulated_gradient);
}

TEST(TrainerNamedStreams, AreForgottenAfterTheCallThatEndsThem) {
  TestTrainer trainer("cpu:1", kModel, kConfig);
  const Call call = RandomCall(trainer.model(), {5, 7}, 1);
  const std::vector<std::string> names = {"a", "b"}, ended = {"b", "unknown"};
  StepCall step = ToStepCall(call);
  step.stream_ids = names;
  step.end_stream_ids = ended;
  ASSERT_TRUE(trainer->Step(step).ok());
  const auto streams = trainer->Save()->streams;
  EXPECT_EQ(streams.named.count("a"), 1);
  EXPECT_EQ(streams.named.count("b"), 0);
}

TEST(TrainerNamedStreams, ChangeOnlyWhenTheCallSucceeds) {
  TestTrainer trainer("cpu:1", kModel, kConfig);
  const Call call = RandomCall(trainer.model(), {5, 7}, 1);
  const std::vector<std::string> names = {"a", "b"};
  StepCall step = ToStepCall(call);
  step.stream_ids = names;
  const std::atomic<bool> cancelled = true;
  step.cancelled = &cancelled;
  EXPECT_TRUE(absl::IsCancelled(trainer->Step(step).status()));
  EXPECT_TRUE(trainer->Save()->streams.named.empty());
}

TEST(TrainerNamedStreams, RefusesNamesThatCannotBe) {
  TestTrainer trainer("cpu:1", kModel, kConfig);
  const Call call = RandomCall(trainer.model(), {5, 7}, 1);
  const auto status = [&](const std::vector<std::string>& names,
                          bool continues = false) {
    StepCall step = ToStepCall(call);
    step.stream_ids = names;
    step.continue_streams = continues;
    return trainer->Step(step).status();
  };
  for (const auto& [refused, message] :
       {std::pair{status({"a", "a"}), "\"a\" is there twice"},
        std::pair{status({"a"}), "1 names for 2 sequences"},
        std::pair{status({"a", ""}), "0 bytes"},
        std::pair{status({"a", std::string(257, 'x')}), "257 bytes"},
        std::pair{status({"a", "b"}, true), "continue_streams"}}) {
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(refused.message()), HasSubstr(message));
  }
  TestTrainer both_ways("cpu:1", kBothWays, kConfig);
  StepCall step = ToStepCall(call);
  const std::vector<std::string> names = {"a", "b"};
  step.stream_ids = names;
  EXPECT_EQ(both_ways->Step(step).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(TrainerNamedStreams, HaveALimit) {
  TestTrainer trainer("cpu:1", kModel, kConfig);
  TrainerState state = *trainer->Save();
  for (size_t i = 0; i < kMaxNamedStreams - 1; ++i) {
    state.streams.named[std::to_string(i)].position = 1;
  }
  ASSERT_TRUE(trainer->Load(std::move(state), false).ok());
  const Call call = RandomCall(trainer.model(), {5, 7}, 1);
  StepCall step = ToStepCall(call);
  const std::vector<std::string> two = {"a", "b"}, one = {"0", "a"};
  step.stream_ids = two;
  const absl::Status full = trainer->Step(step).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("65536"));
  step.stream_ids = one;
  EXPECT_TRUE(trainer->Step(step).ok());
}

// Of a model whose states are large, before they fill the memory.
TEST(TrainerNamedStreams, HaveALimitOfBytes) {
  v1::ModelConfig config;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(input { features { size: 1 } }
         blocks { sru { hidden_size: 4096 num_layers: 16 } }
         output { linear { size: 1 } } loss { kind: MEAN_SQUARED_ERROR })",
      &config));
  const auto model = *Model::Create(config);
  const size_t most =
      kMaxNamedStreamBytes / (model->state_size() * sizeof(float));
  ASSERT_LT(most, 2000);
  EXPECT_EQ(MaxNamedStreams(*model), most);
  Streams streams;
  for (size_t i = 1; i < most; ++i) streams.named[std::to_string(i)];
  SequenceBatch batch;
  batch.cu_seqlens = {0, 1, 2};
  const auto start = [&](const std::vector<std::string>& names) {
    return StartStreams(*model, batch, {false, names, {}}, streams).status();
  };
  EXPECT_TRUE(start({"1", "a"}).ok());
  const absl::Status full = start({"a", "b"});
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()),
              HasSubstr(absl::StrCat("the limit is ", most)));
}

}  // namespace
}  // namespace recurve
