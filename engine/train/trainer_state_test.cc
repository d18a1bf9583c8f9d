// Saving a training and going on elsewhere.
#include "engine/train/trainer_state.h"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "engine/train/trainer.h"
#include "engine/train/trainer_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::HasSubstr;

// Random numbers of every kind, and a previous input row in the state.
constexpr char kModel[] =
    "input { token_embedding { vocabulary_size: 12 embedding_size: 8 } "
    "dropout: 0.3 } "
    "blocks { qrnn { hidden_size: 16 num_layers: 2 window: 2 zoneout: 0.3 "
    "dropout: 0.3 save_prev_x: true } } blocks { name: 'sru' sru { "
    "hidden_size: 16 dropout: 0.3 rnn_dropout: 0.3 rescale: true } } "
    "output { linear { size: 12 } dropout: 0.3 } loss { kind: CROSS_ENTROPY }";
constexpr char kRest[] =
    " learning_rate { peak: 0.05 warmup_cosine { warmup_steps: 3 total_steps: "
    "9 } } accumulation_steps: 3 micro_batch_rows: 8 max_gradient_norm: 0.1 "
    "seed: 5";

class TrainerStateOf : public ::testing::TestWithParam<const char*> {
 protected:
  std::string config() const { return std::string(GetParam()) + kRest; }
};

// Calls [begin, end) of a training: each goes on where the one before ended,
// every fifth by names.
void MakeCalls(TestTrainer& trainer, int begin, int end) {
  const std::vector<std::string> names = {"a", "b", "c", "d"};
  for (int i = begin; i < end; ++i) {
    const Call call = RandomCall(trainer.model(), {3 + i % 3, 9, 2, 6}, i);
    StepCall step = ToStepCall(call);
    step.continue_streams = i % 5 != 0;
    if (i % 5 == 0) step.stream_ids = names;
    const auto result = trainer->Step(step);
    ASSERT_TRUE(result.ok()) << result.status();
  }
}

TrainerState Saved(TestTrainer& trainer) {
  auto state = trainer->Save();
  EXPECT_TRUE(state.ok()) << state.status();
  return state.ok() ? *std::move(state) : TrainerState();
}

bool SameStream(const Stream& a, const Stream& b) {
  return a.position == b.position && SameBits(a.state, b.state);
}

void ExpectSame(const TrainerState& a, const TrainerState& b) {
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.skipped_steps, b.skipped_steps);
  EXPECT_EQ(a.accumulated_calls, b.accumulated_calls);
  EXPECT_EQ(a.accumulated_weight, b.accumulated_weight);
  EXPECT_EQ(a.learning_rate_scale, b.learning_rate_scale);
  EXPECT_TRUE(SameBits(a.parameters, b.parameters));
  EXPECT_TRUE(SameBits(a.first_moment, b.first_moment));
  EXPECT_TRUE(SameBits(a.second_moment, b.second_moment));
  EXPECT_TRUE(SameBits(a.accumulated_gradient, b.accumulated_gradient));
  ASSERT_EQ(a.streams.last.size(), b.streams.last.size());
  for (size_t i = 0; i < a.streams.last.size(); ++i) {
    EXPECT_TRUE(SameStream(a.streams.last[i], b.streams.last[i])) << i;
  }
  ASSERT_EQ(a.streams.named.size(), b.streams.named.size());
  for (const auto& [name, stream] : a.streams.named) {
    EXPECT_TRUE(SameStream(stream, b.streams.named.at(name))) << name;
  }
}

TEST_P(TrainerStateOf, GoesOnBitForBitOnOtherDevices) {
  TestTrainer undisturbed("cpu:1,cpu:1", kModel, config());
  MakeCalls(undisturbed, 0, 26);

  TestTrainer one("cpu:1", kModel, config());
  MakeCalls(one, 0, 16);  // five steps and a call
  TrainerState state = Saved(one);
  EXPECT_EQ(state.step, 5);
  EXPECT_EQ(state.accumulated_calls, 1);
  EXPECT_EQ(state.streams.last.size(), 4);
  EXPECT_EQ(state.streams.named.size(), 4);

  TestTrainer three("cpu:1,cpu:2,cpu:1", kModel, config());
  MakeCalls(three, 0, 2);  // of another past
  ASSERT_TRUE(three->Load(state, false).ok());
  ExpectSame(Saved(three), state);
  MakeCalls(three, 16, 20);
  state = Saved(three);
  EXPECT_EQ(state.accumulated_calls, 2);

  TestTrainer two("cpu:1,cpu:1", kModel, config());
  ASSERT_TRUE(two->Load(state, false).ok());
  EXPECT_EQ(two->step(), 6);
  EXPECT_EQ(two->accumulated_calls(), 2);
  MakeCalls(two, 20, 26);
  ExpectSame(Saved(two), Saved(undisturbed));
}

TEST_P(TrainerStateOf, WeightsAloneStartAnew) {
  TestTrainer one("cpu:1", kModel, config());
  MakeCalls(one, 0, 10);
  TrainerState state = Saved(one);

  TestTrainer loaded("cpu:1,cpu:1", kModel, config());
  MakeCalls(loaded, 0, 8);
  ASSERT_TRUE(loaded->Load(state, /*weights_only=*/true).ok());
  EXPECT_EQ(loaded->step(), 0);
  EXPECT_EQ(loaded->accumulated_calls(), 0);
  const TrainerState anew = Saved(loaded);
  EXPECT_TRUE(SameBits(anew.parameters, state.parameters));
  EXPECT_TRUE(anew.streams.last.empty());
  EXPECT_TRUE(anew.streams.named.empty());
  for (const float x : anew.first_moment) ASSERT_EQ(x, 0);
  for (const float x : anew.second_moment) ASSERT_EQ(x, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Optimizers, TrainerStateOf,
    ::testing::Values("optimizer { sgd { momentum: 0.9 } }",
                      "optimizer { adam { weight_decay: 0.01 } }",
                      "optimizer { adamw { weight_decay: 0.01 } }"));

TEST(TrainerState, LearningRateScaleMultipliesTheSchedule) {
  const std::string config = std::string("optimizer { adam {} }") + kRest;
  TestTrainer trainer("cpu:1", kModel, config);
  TrainerState state = Saved(trainer);
  state.learning_rate_scale = 0.25;
  ASSERT_TRUE(trainer->Load(state, false).ok());
  const Call call = RandomCall(trainer.model(), {3, 4}, 1);
  StepCall step = ToStepCall(call);
  step.action = StepAction::kForwardBackwardOptimizerStep;
  EXPECT_EQ(trainer->Step(step)->learning_rate, double{0.05f} / 3 * 0.25);
  step.learning_rate = 0.5;
  EXPECT_EQ(trainer->Step(step)->learning_rate, 0.5);
}

// scale_x is read when weights arrive, never later.
TEST(TrainerState, ALoadedScaleIsUsed) {
  const std::string config = std::string("optimizer { sgd {} }") + kRest;
  TestTrainer trainer("cpu:1", kModel, config);
  const Call call = RandomCall(trainer.model(), {3, 4}, 1);
  TrainerState state = Saved(trainer);
  const double before = trainer.Step(call).loss;
  for (const Parameter& p : trainer.model().parameters().parameters()) {
    if (absl::StrContains(p.name, "scale_x")) state.parameters[p.offset] = 3;
  }
  ASSERT_TRUE(trainer->Load(state, false).ok());
  const double after = trainer.Step(call).loss;
  EXPECT_GT(std::abs(after - before), 1e-5);
}

TEST(TrainerState, RefusesWhatDoesNotFitAndChangesNothing) {
  const std::string config = std::string("optimizer { adam {} }") + kRest;
  TestTrainer trainer("cpu:1,cpu:1", kModel, config);
  MakeCalls(trainer, 0, 4);
  const TrainerState good = Saved(trainer);
  using Spoil = std::function<void(TrainerState&)>;
  for (const auto& [spoil, message] :
       std::vector<std::pair<Spoil, std::string>>{
           {[](auto& s) { s.parameters.pop_back(); }, "parameters: "},
           {[](auto& s) { s.first_moment.clear(); }, "first_moment: 0"},
           {[](auto& s) { s.second_moment.push_back(0); }, "second_moment: "},
           {[](auto& s) { s.accumulated_gradient.clear(); },
            "accumulated_gradient: 0"},
           {[](auto& s) { s.accumulated_calls = 0; }, "accumulated_weight: "},
           {[](auto& s) { s.accumulated_calls = -1; }, "accumulated_calls: "},
           {[](auto& s) { s.accumulated_weight = 0; }, "accumulated_weight: "},
           {[](auto& s) { s.step = -1; }, "step: "},
           {[](auto& s) { s.skipped_steps = 2; }, "skipped_steps: "},
           {[](auto& s) { s.learning_rate_scale = 0; },
            "learning_rate_scale: "},
           {[](auto& s) { s.streams.last[0].state.pop_back(); }, "streams: "},
           {[](auto& s) { s.streams.named["a"].position = -1; },
            "streams: "}}) {
    TrainerState bad = good;
    spoil(bad);
    const absl::Status status = trainer->Load(bad, false);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
  TrainerState bad = good;
  bad.parameters.pop_back();
  EXPECT_EQ(trainer->Load(bad, true).code(),
            absl::StatusCode::kInvalidArgument);
  ExpectSame(Saved(trainer), good);
}

}  // namespace
}  // namespace recurve
