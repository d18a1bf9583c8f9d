// Losses, states and gradients that are not finite: one decision for all
// devices, and the same words for it whatever they are.
#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/train/not_finite.h"
#include "engine/train/trainer.h"
#include "engine/train/trainer_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/backend.h"
#include "kernels/forwarding_backend.h"

namespace recurve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr char kTwoDevices[] = "cpu:1,cpu:2";

constexpr char kFeatureModel[] =
    "input { features { size: 4 } } "
    "blocks { qrnn { hidden_size: 4 output_gate: false } } "
    "output { linear { size: 2 } } loss { kind: MEAN_SQUARED_ERROR }";
constexpr char kTokenModel[] =
    "input { token_embedding { vocabulary_size: 12 embedding_size: 8 } } "
    "blocks { sru { hidden_size: 16 num_layers: 2 dropout: 0.2 } } "
    "output { linear { size: 12 } } loss { kind: CROSS_ENTROPY }";
constexpr char kConfig[] =
    "optimizer { sgd {} } learning_rate { peak: 0.1 } micro_batch_rows: 4 "
    "accumulation_steps: 2";

using Change = std::function<void(const Model&, TrainerState&)>;

// Sets numbers of a parameter.
Change Set(const std::string& parameter, int64_t first, int64_t count,
           float value) {
  return [=](const Model& model, TrainerState& state) {
    const int64_t at = model.parameters().Find(parameter)->offset + first;
    std::fill_n(state.parameters.begin() + at, count, value);
  };
}

// What the error says of `call`, made as the first and as the second call of an
// optimizer step on trainers of one, two and three devices whose state has been
// changed: the same each time, and it leaves no trace.
NotFinite Explained(const char* model, const Call& call, const Change& change) {
  std::optional<NotFinite> first;
  for (const char* devices : {"cpu:1", "cpu:2,cpu:1", "cpu:1,cpu:1,cpu:1"}) {
    TestTrainer trainer(devices, model, kConfig);
    TrainerState state = *trainer->Save();
    change(trainer.model(), state);
    EXPECT_TRUE(trainer->Load(state, false).ok());
    for (const StepAction action :
         {StepAction::kForwardBackward,
          StepAction::kForwardBackwardOptimizerStep}) {
      StepCall step = ToStepCall(call);
      step.action = action;
      const absl::Status status = trainer->Step(step).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      const auto where = GetNotFinite(status);
      EXPECT_TRUE(where.has_value()) << status;
      if (!where) return {};
      if (!first) first = where;
      EXPECT_EQ(status, NotFiniteError(*first)) << devices;
    }
    EXPECT_TRUE(SameBits(trainer.Parameters(), state.parameters));
    EXPECT_EQ(trainer->step(), 0);
    EXPECT_EQ(trainer->accumulated_calls(), 0);
  }
  return *first;
}

const Change kNoChange = [](const Model&, TrainerState&) {};

Call CallOf(const char* model, const std::vector<int64_t>& lengths) {
  TestTrainer trainer("cpu:1", model, kConfig);
  return RandomCall(trainer.model(), lengths, 9);
}

TEST(TrainerNotFinite, AHugeTargetIsNamedByItsSequence) {
  Call bad = CallOf(kFeatureModel, {3, 2, 4, 1});
  bad.targets.values[2 * 5] = 1e30f;  // row 5 is in sequence 2
  const NotFinite where = Explained(kFeatureModel, bad, kNoChange);
  EXPECT_EQ(where.what, "loss");
  EXPECT_EQ(where.layer, "loss");
  EXPECT_EQ(where.step, 1);
  EXPECT_THAT(where.sequences, ElementsAre(2));
}

TEST(TrainerNotFinite, BadWeightsAreNamedByTheirLayer) {
  const Call call = CallOf(kTokenModel, std::vector<int64_t>(20, 3));
  const NotFinite where = Explained(
      kTokenModel, call, Set("blocks.0.layers.1.projection", 3, 1, kNan));
  EXPECT_EQ(where.what, "loss");
  EXPECT_EQ(where.layer, "blocks[0].layer 1");
  // The first 16 of 20.
  ASSERT_EQ(where.sequences.size(), 16);
  for (int i = 0; i < 16; ++i) EXPECT_EQ(where.sequences[i], i);
}

TEST(TrainerNotFinite, ABadTokenNamesTheSequencesThatHaveIt) {
  Call call = CallOf(kTokenModel, {3, 2, 4, 1, 5});
  for (int32_t& token : call.batch.tokens) token %= 11;
  call.batch.tokens[4] = call.batch.tokens[10] = 11;  // sequences 1 and 4
  const NotFinite where =
      Explained(kTokenModel, call, Set("embedding.weight", 11 * 8, 8, kNan));
  EXPECT_EQ(where.layer, "input embedding");
  EXPECT_THAT(where.sequences, ElementsAre(1, 4));
}

TEST(TrainerNotFinite, AStreamsStateCountsToo) {
  Call call = CallOf(kTokenModel, {3, 2, 4});
  call.continue_streams = true;
  // No row of sequence 1 has a loss.
  call.targets.classes[3] = call.targets.classes[4] = -1;
  const NotFinite where =
      Explained(kTokenModel, call, [](const Model& model, TrainerState& state) {
        state.streams.last.resize(3);
        state.streams.last[1].state.assign(model.state_size(), 0);
        state.streams.last[1].state.back() = kInfinity;
      });
  EXPECT_EQ(where.what, "state");
  EXPECT_EQ(where.layer, "blocks[0].layer 1");
  EXPECT_THAT(where.sequences, ElementsAre(1));
}

// Features and hidden rows are 0, so that the output is its bias however large
// its weights; its gradient, times those weights, is too large for a float.
TEST(TrainerNotFinite, AGradientIsSearchedBackwardsFromTheLoss) {
  Call call = CallOf(kFeatureModel, {3, 2, 4, 1, 4});
  std::fill(call.batch.features.begin(), call.batch.features.end(), 0.0f);
  std::fill(call.targets.values.begin(), call.targets.values.end(), 0.0f);
  call.targets.weights.clear();
  call.targets.values[2 * 4] = 1e15f;  // sequence 1
  call.targets.values[2 * 9] = 1e15f;  // sequence 3
  const NotFinite where = Explained(
      kFeatureModel, call, [](const Model& model, TrainerState& state) {
        const int64_t biases =
            model.parameters().Find("blocks.0.layers.0.bias")->count();
        Set("blocks.0.layers.0.bias", 0, biases, 0)(model, state);
        Set("output.weight", 0, 8, 1e25f)(model, state);
      });
  EXPECT_EQ(where.what, "gradient");
  EXPECT_EQ(where.layer, "blocks[0].layer 0");
  EXPECT_THAT(where.sequences, ElementsAre(1, 3));
}

TEST(TrainerNotFinite, ASumOfFiniteGradientsNamesAll) {
  Call call = CallOf(kFeatureModel, std::vector<int64_t>(30, 2));
  call.targets.weights.assign(60, 1e37f);
  std::fill(call.targets.values.begin(), call.targets.values.end(), 2.0f);
  const NotFinite where = Explained(kFeatureModel, call, kNoChange);
  EXPECT_EQ(where.what, "gradient");
  EXPECT_EQ(where.layer, "output");
  EXPECT_EQ(where.sequences.size(), 16);
}

// The sum is finite, but 1 / weight is not as a float.
TEST(TrainerNotFinite, AWeightTooSmallToDivideByIsRefused) {
  TestTrainer trainer(kTwoDevices, kFeatureModel, kConfig);
  Call call = RandomCall(trainer.model(), {3, 2}, 9);
  call.targets.weights.assign(5, 1e-45f);
  StepCall step = ToStepCall(call);
  step.action = StepAction::kForwardBackwardOptimizerStep;
  const auto where = GetNotFinite(trainer->Step(step).status());
  ASSERT_TRUE(where.has_value());
  EXPECT_EQ(where->what, "gradient");
  EXPECT_EQ(where->layer, "loss");
}

TEST(TrainerNotFinite, TheWeightsComeOutAsWithoutTheCall) {
  TestTrainer trainer(kTwoDevices, kFeatureModel, kConfig);
  TestTrainer undisturbed("cpu:1", kFeatureModel, kConfig);
  Call bad = RandomCall(trainer.model(), {3, 2, 4, 1}, 9);
  bad.targets.values[2 * 5] = 1e30f;
  for (uint32_t i = 0; i < 4; ++i) {
    const auto where = GetNotFinite(trainer.TryStep(bad).status());
    ASSERT_TRUE(where.has_value());
    EXPECT_EQ(where->step, i / 2 + 1);
    const Call call = RandomCall(trainer.model(), {3, 2, 4, 1}, i);
    trainer.Step(call);
    undisturbed.Step(call);
  }
  EXPECT_TRUE(SameBits(trainer.Parameters(), undisturbed.Parameters()));
}

// Spoils a number of the gradient while it is told to.
class SpoilingBackend : public ForwardingBackend {
 public:
  SpoilingBackend(std::unique_ptr<Backend> to, const std::atomic<bool>& spoils)
      : ForwardingBackend(std::move(to)), spoils_(spoils) {}

  absl::Status LinearBackward(const LinearBackwardArgs<float>& args) override {
    const absl::Status status = ForwardingBackend::LinearBackward(args);
    if (spoils_) args.dweight.data[3] = kInfinity;
    return status;
  }

 private:
  const std::atomic<bool>& spoils_;
};

TEST(TrainerNotFinite, GradientOfOneDeviceIsNotApplied) {
  std::atomic<bool> spoils = false;
  TestTrainer trainer(kTwoDevices, kFeatureModel, kConfig,
                      [&](const DeviceSpec& spec) -> std::unique_ptr<Backend> {
                        auto backend = CreateCpuBackend(spec.threads);
                        if (spec.threads == 1) return backend;
                        return std::make_unique<SpoilingBackend>(
                            std::move(backend), spoils);
                      });
  TestTrainer undisturbed("cpu:1", kFeatureModel, kConfig);
  for (uint32_t i = 0; i < 4; ++i) {
    const Call call = RandomCall(trainer.model(), {3, 2, 4, 1}, i);
    spoils = true;
    const auto where = GetNotFinite(trainer.TryStep(call).status());
    spoils = false;
    ASSERT_TRUE(where.has_value());
    EXPECT_EQ(where->what, "gradient");
    EXPECT_EQ(where->layer, "output");
    EXPECT_FALSE(where->sequences.empty());
    trainer.Step(call);
    undisturbed.Step(call);
  }
  EXPECT_TRUE(SameBits(trainer.Parameters(), undisturbed.Parameters()));
}

TEST(TrainerNotFinite, SkippingForgetsTheStreamsOfTheFailedCall) {
  TestTrainer trainer("cpu:1,cpu:1", kFeatureModel, kConfig);
  Call call = RandomCall(trainer.model(), {3, 2}, 1);
  const std::vector<std::string> good = {"a", "b"}, failing = {"b", "c"};
  StepCall step = ToStepCall(call);
  step.stream_ids = good;
  ASSERT_TRUE(trainer->Step(step).ok());
  call.targets.values[0] = 1e30f;
  step.stream_ids = failing;
  EXPECT_TRUE(GetNotFinite(trainer->Step(step).status()).has_value());
  EXPECT_EQ(trainer->Save()->streams.named.size(), 2);
  trainer->SkipStep();
  const TrainerState state = *trainer->Save();
  EXPECT_EQ(state.step, 1);
  EXPECT_EQ(state.skipped_steps, 1);
  EXPECT_EQ(state.accumulated_calls, 0);
  EXPECT_TRUE(state.streams.last.empty());
  EXPECT_EQ(state.streams.named.size(), 1);
  EXPECT_EQ(state.streams.named.count("a"), 1);
}

// --- The error ---

TEST(NotFiniteError, SaysAllInWordsAndInItsPayload) {
  const NotFinite where = {7, "loss", "blocks[0].layer 1", {0, 5}};
  const absl::Status status = NotFiniteError(where);
  EXPECT_EQ(status.message(),
            "the loss is not finite in optimizer step 7, first in "
            "blocks[0].layer 1, sequences 0, 5; nothing was changed");
  const auto read = GetNotFinite(status);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->step, 7);
  EXPECT_EQ(read->what, "loss");
  EXPECT_EQ(read->layer, "blocks[0].layer 1");
  EXPECT_EQ(read->sequences, where.sequences);
  EXPECT_FALSE(GetNotFinite(absl::FailedPreconditionError("x")).has_value());
  EXPECT_FALSE(GetNotFinite(absl::OkStatus()).has_value());
}

TEST(NotFiniteError, SaysThatThereMayBeMoreSequences) {
  NotFinite where = {1, "gradient", "output", {}};
  EXPECT_EQ(NotFiniteError(where).message(),
            "the gradient is not finite in optimizer step 1, first in output; "
            "nothing was changed");
  where.sequences.resize(kMaxNotFiniteSequences);
  EXPECT_THAT(std::string(NotFiniteError(where).message()),
              HasSubstr(" and perhaps more; nothing was changed"));
}

}  // namespace
}  // namespace recurve
