#include "engine/train/trainer.h"

#include <cmath>
#include <string>
#include <vector>

#include "engine/model/executor_test_util.h"
#include "engine/model/initialize.h"
#include "engine/model/test_models.h"
#include "engine/train/trainer_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::HasSubstr;

// --- The same weights everywhere ---

struct DeterminismCase {
  const char* name;
  const char* model;
  const char* config;
};

void PrintTo(const DeterminismCase& c, std::ostream* out) { *out << c.name; }

class TrainerDeterminism : public ::testing::TestWithParam<DeterminismCase> {
 protected:
  // What training gives: weights, and the numbers of every call.
  struct Outcome {
    std::vector<float> weights;
    std::vector<double> numbers;
  };

  // Three optimizer steps of two calls each, of 9 micro-batches, one of
  // them above 4096 rows; the fourth to sixth call go on where the third ended.
  Outcome Train(const std::string& devices) {
    TestTrainer trainer(devices, GetParam().model, GetParam().config);
    const std::vector<int64_t> lengths = {700, 300, 23,  1000, 1, 1,   4500,
                                          512, 513, 640, 800,  7, 900, 130};
    Outcome outcome;
    for (uint32_t i = 0; i < 6; ++i) {
      Call call = RandomCall(trainer.model(), lengths, i);
      call.continue_streams = i >= 3 && !trainer.model().bidirectional();
      const StepResult result = trainer.Step(call);
      EXPECT_EQ(result.updated, i % 2 == 1);
      outcome.numbers.insert(outcome.numbers.end(),
                             {result.loss, result.weight, result.gradient_norm,
                              result.learning_rate});
      for (const DeviceTime& device : result.devices) {
        EXPECT_GT(device.rows, 0) << device.device << " of " << devices;
        EXPECT_GT(device.compute_ms, 0) << device.device << " of " << devices;
      }
    }
    outcome.weights = trainer.Parameters();
    return outcome;
  }
};

TEST_P(TrainerDeterminism, WeightsAreByteIdenticalOnAnyDevices) {
  const Outcome expected = Train("cpu:1");
  const auto initial = InitializeParameters(*MakeModel(GetParam().model), 1);
  ASSERT_GT(MaxDifference(initial, expected.weights), 1e-4);
  for (const char* devices :
       {"cpu:2", "cpu:3", "cpu:1,cpu:1", "cpu:1,cpu:1,cpu:1", "cpu:2,cpu:1",
        "cpu:1,cpu:1,cpu:1,cpu:1,cpu:1"}) {
    const Outcome outcome = Train(devices);
    EXPECT_TRUE(SameBits(outcome.weights, expected.weights))
        << devices << ": differ by "
        << MaxDifference(outcome.weights, expected.weights);
    EXPECT_EQ(outcome.numbers, expected.numbers) << devices;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, TrainerDeterminism,
    ::testing::Values(
        DeterminismCase{
            "SruAdamClipped",
            "input { token_embedding { vocabulary_size: 60 embedding_size: 24 "
            "} dropout: 0.2 } "
            "blocks { sru { hidden_size: 40 dropout: 0.2 rnn_dropout: 0.2 "
            "layer_norm: true } } "
            "output { linear { size: 48 } dropout: 0.2 } "
            "loss { kind: CROSS_ENTROPY }",
            "optimizer { adam { weight_decay: 0.01 } } "
            "learning_rate { peak: 0.01 warmup_inverse_sqrt { warmup_steps: 2 "
            "} } max_gradient_norm: 0.05 accumulation_steps: 2 seed: 7"},
        DeterminismCase{
            "QrnnMomentum",
            "input { token_embedding { vocabulary_size: 60 embedding_size: 24 "
            "} } blocks { qrnn { hidden_size: 33 num_layers: 2 window: 2 "
            "zoneout: 0.1 dropout: 0.2 save_prev_x: true } } "
            "output { linear { size: 48 } } loss { kind: CROSS_ENTROPY }",
            "optimizer { sgd { momentum: 0.9 weight_decay: 0.001 } } "
            "learning_rate { peak: 0.5 } accumulation_steps: 2 seed: 8"},
        DeterminismCase{
            "BidirectionalSruPooledAdamW",
            "input { features { size: 20 } dropout: 0.2 } "
            "blocks { sru { hidden_size: 32 bidirectional: true dropout: 0.2 "
            "} } output { pooling: POOLING_MEAN linear { size: 48 } } "
            "loss { kind: CROSS_ENTROPY }",
            "optimizer { adamw { weight_decay: 0.1 } } "
            "learning_rate { peak: 0.01 } max_gradient_norm: 1 "
            "accumulation_steps: 2 seed: 9"}),
    [](const auto& info) { return info.param.name; });

// --- What a step is ---

constexpr char kSmallModel[] =
    "input { token_embedding { vocabulary_size: 12 embedding_size: 8 } } "
    "blocks { sru { hidden_size: 16 } } "
    "output { linear { size: 12 } } loss { kind: CROSS_ENTROPY }";
constexpr char kPlainSgd[] =
    "optimizer { sgd {} } learning_rate { peak: 0.5 } micro_batch_rows: 8 ";

// Gradient of the mean loss of a call, by the executor alone.
std::vector<float> MeanGradient(const Call& call, double weight) {
  TestExecutor reference(kSmallModel);
  ForwardArgs forward;
  forward.batch = &call.batch;
  forward.mode = Mode::kTraining;
  reference.SetParameters(InitializeParameters(reference.model(), 1));
  reference.Forward(forward);
  std::vector<float> gradient = reference.Gradients(call.targets);
  for (float& g : gradient) g /= static_cast<float>(weight);
  return gradient;
}

double Norm(const std::vector<float>& numbers) {
  double squares = 0;
  for (const float x : numbers) squares += double{x} * x;
  return std::sqrt(squares);
}

TEST(Trainer, TakesTheStepOfTheMeanGradient) {
  TestTrainer trainer("cpu:1,cpu:1", kSmallModel, kPlainSgd);
  const Call call = RandomCall(trainer.model(), {5, 4, 3, 9, 1, 2, 8}, 1);
  std::vector<float> expected = trainer.Parameters();
  const StepResult result = trainer.Step(call);
  const auto gradient = MeanGradient(call, result.weight);
  for (size_t i = 0; i < expected.size(); ++i)
    expected[i] -= 0.5f * gradient[i];
  EXPECT_LT(MaxDifference(trainer.Parameters(), expected), 1e-6);
  EXPECT_NEAR(result.gradient_norm, Norm(gradient), 1e-6);
  EXPECT_EQ(result.learning_rate, 0.5);
  EXPECT_EQ(result.rows, 32);
  EXPECT_EQ(result.step, 1);
  EXPECT_EQ(trainer->step(), 1);
}

TEST(Trainer, ClipsTheGradientByItsNorm) {
  TestTrainer trainer("cpu:1", kSmallModel,
                      std::string(kPlainSgd) + "max_gradient_norm: 0.01");
  const Call call = RandomCall(trainer.model(), {5, 4, 3, 9, 1, 2, 8}, 1);
  std::vector<float> expected = trainer.Parameters();
  const StepResult result = trainer.Step(call);
  ASSERT_GT(result.gradient_norm, 0.1);
  const auto gradient = MeanGradient(call, result.weight);
  const float rate = static_cast<float>(0.5 * 0.01 / Norm(gradient));
  for (size_t i = 0; i < expected.size(); ++i)
    expected[i] -= rate * gradient[i];
  // torch adds 1e-6 to the norm.
  EXPECT_LT(MaxDifference(trainer.Parameters(), expected), 1e-6);
}

TEST(Trainer, LossFallsOnWhatCanBeLearnt) {
  TestTrainer trainer("cpu:1,cpu:1", kSmallModel,
                      "optimizer { adam {} } learning_rate { peak: 0.02 } "
                      "max_gradient_norm: 5 micro_batch_rows: 64");
  Call call = RandomCall(trainer.model(), {30, 50, 20, 40}, 1);
  call.targets = {};
  // The target is the token before: it takes a memory.
  for (size_t b = 0; b + 1 < call.batch.cu_seqlens.size(); ++b) {
    int32_t previous = 0;
    for (int64_t n = call.batch.cu_seqlens[b]; n < call.batch.cu_seqlens[b + 1];
         ++n) {
      call.targets.classes.push_back(previous);
      previous = call.batch.tokens[n];
    }
  }
  const double first = trainer.Step(call).loss;
  EXPECT_NEAR(first, std::log(12), 0.5);
  double last = first;
  for (int i = 0; i < 150; ++i) last = trainer.Step(call).loss;
  EXPECT_LT(last, 0.2);
}

TEST(Trainer, TwoHalvesAccumulateToTheWholeBatch) {
  const std::string config =
      "optimizer { adam {} } learning_rate { peak: 0.01 } micro_batch_rows: 16 "
      "max_gradient_norm: 0.1 ";
  TestTrainer whole("cpu:1", kSmallModel, config);
  TestTrainer halves("cpu:1,cpu:1", kSmallModel,
                     config + "accumulation_steps: 2");
  for (uint32_t round = 0; round < 3; ++round) {
    const Call all = RandomCall(whole.model(), {7, 5, 11, 3, 20, 2}, round);
    const int64_t cut = all.batch.cu_seqlens[3];
    Call left, right;
    left.batch = Slice(whole.model(), all.batch, 0, 3);
    right.batch = Slice(whole.model(), all.batch, 3, 3);
    const auto share = [&](const auto& from, auto& first, auto& second) {
      first.assign(from.begin(), from.begin() + cut);
      second.assign(from.begin() + cut, from.end());
    };
    share(all.targets.classes, left.targets.classes, right.targets.classes);
    share(all.targets.weights, left.targets.weights, right.targets.weights);

    const StepResult once = whole.Step(all);
    const StepResult first = halves.Step(left);
    const StepResult second = halves.Step(right);
    EXPECT_FALSE(first.updated);
    EXPECT_EQ(first.step, round);
    EXPECT_TRUE(second.updated);
    EXPECT_NEAR(second.gradient_norm, once.gradient_norm, 1e-6);
    EXPECT_NEAR(first.weight + second.weight, once.weight, 1e-9);
    EXPECT_NEAR(
        (first.loss * first.weight + second.loss * second.weight) / once.weight,
        once.loss, 1e-6);
  }
  EXPECT_LT(MaxDifference(whole.Parameters(), halves.Parameters()), 1e-6);
}

TEST(Trainer, LeavesFrozenParametersAlone) {
  TestTrainer trainer(
      "cpu:1",
      "input { features { size: 6 } } blocks { sru { hidden_size: 6 v1: true "
      "rescale: true } } output { linear { size: 3 } } "
      "loss { kind: MEAN_SQUARED_ERROR }",
      "optimizer { adamw { weight_decay: 0.5 } } learning_rate { peak: 0.1 }");
  const auto before = trainer.Parameters();
  trainer.Step(RandomCall(trainer.model(), {9, 4}, 1));
  const auto after = trainer.Parameters();
  for (const Parameter& parameter : trainer.model().parameters().parameters()) {
    const auto in = [&](const std::vector<float>& buffer) {
      return std::vector<float>(
          buffer.begin() + parameter.offset,
          buffer.begin() + parameter.offset + parameter.count());
    };
    EXPECT_EQ(SameBits(in(before), in(after)), !parameter.trainable)
        << parameter.name;
  }
}

TEST(Trainer, AcceptsSequencesWithoutRows) {
  const auto train = [](const std::vector<int64_t>& lengths) {
    TestTrainer trainer("cpu:1,cpu:1", kSmallModel, kPlainSgd);
    trainer.Step(RandomCall(trainer.model(), lengths, 1));
    return trainer.Parameters();
  };
  // Micro-batches of no rows among them.
  EXPECT_TRUE(SameBits(train({5, 20, 3}), train({5, 20, 3})));
  EXPECT_LT(MaxDifference(train({0, 5, 0, 20, 0, 0, 3, 0}), train({5, 20, 3})),
            1e-6);
}

TEST(Trainer, RecordsItsConfigWithEveryDefault) {
  TestTrainer trainer("cpu:1", kSmallModel,
                      "optimizer { adam {} } learning_rate { peak: 0.5 }");
  EXPECT_EQ(trainer->config().micro_batch_rows(), 1024);
  EXPECT_EQ(trainer->config().accumulation_steps(), 1);
  EXPECT_EQ(trainer->config().optimizer().adam().beta2(), 0.999f);
}

TEST(Trainer, CreateRefusesWhatCannotBeTrained) {
  DevicePool pool(*ParseDevices("cpu:1"));
  const auto create = [&](const std::string& model_text, int64_t surplus,
                          const std::string& config) {
    const auto model = MakeModel(model_text);
    return Trainer::Create(
               pool, model,
               std::vector<float>(model->parameters().buffer_size() + surplus),
               ParseTrainerConfig(config))
        .status();
  };
  EXPECT_TRUE(create(kSmallModel, 0, kPlainSgd).ok());
  for (const auto& [status, message] :
       {std::pair{create("input { features { size: 2 } } blocks { sru { "
                         "hidden_size: 2 } }",
                         0, kPlainSgd),
                  "the model has no loss"},
        std::pair{create(kSmallModel, 16, kPlainSgd), "parameters: "},
        std::pair{create(kSmallModel, 0, "learning_rate { peak: 1 }"),
                  "optimizer: is not set"}}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

// --- Random numbers ---

constexpr char kRandomModel[] =
    "input { token_embedding { vocabulary_size: 12 embedding_size: 8 } "
    "dropout: 0.3 } "
    "blocks { qrnn { hidden_size: 16 num_layers: 2 window: 2 zoneout: 0.3 "
    "dropout: 0.3 save_prev_x: true } } blocks { name: 'sru' sru { "
    "hidden_size: 16 dropout: 0.3 rnn_dropout: 0.3 } } "
    "output { linear { size: 12 } dropout: 0.3 } loss { kind: CROSS_ENTROPY }";

TEST(TrainerRandom, DoesNotDependOnTheCutIntoMicroBatches) {
  const auto first_loss = [](const std::string& micro_batch_rows) {
    TestTrainer trainer("cpu:1,cpu:1", kRandomModel,
                        "optimizer { sgd {} } learning_rate { peak: 0.1 } "
                        "seed: 5 micro_batch_rows: " +
                            micro_batch_rows);
    return trainer.Step(RandomCall(trainer.model(), {5, 3, 7, 2, 6}, 1)).loss;
  };
  EXPECT_NEAR(first_loss("1"), first_loss("1000"), 1e-7);
  EXPECT_NEAR(first_loss("8"), first_loss("1000"), 1e-7);
}

TEST(TrainerRandom, IsKeyedByStepAccumulationAndPosition) {
  TestTrainer trainer("cpu:1", kRandomModel,
                      "optimizer { sgd {} } learning_rate { peak: 0.1 } "
                      "accumulation_steps: 2 seed: 5");
  TestExecutor reference(kRandomModel);
  std::vector<float> state;
  std::vector<int64_t> positions;
  for (uint32_t i = 0; i < 4; ++i) {
    Call call = RandomCall(trainer.model(), {4, 7, 5}, i);
    call.continue_streams = i > 0;
    reference.SetParameters(trainer.Parameters());
    ForwardArgs forward;
    forward.batch = &call.batch;
    forward.mode = Mode::kTraining;
    forward.state = state;
    forward.random.seed = 5;
    forward.random.step = 1 + i / 2;
    forward.random.accumulation = i % 2;
    forward.random.positions = positions;
    const ForwardResult result = reference.Forward(forward);
    state = reference.ToHost(result.state);
    const auto loss = reference.executor().Loss(call.targets);
    ASSERT_TRUE(loss.ok()) << loss.status();
    EXPECT_EQ(trainer.Step(call).loss, loss->loss / loss->weight) << i;
    positions = {4 * (i + 1), 7 * (i + 1), 5 * (i + 1)};
  }
}

// --- Streams ---

// Nothing random, so that calls can be compared with longer ones; weights stay
// as they are during the first two calls.
constexpr char kTwoCalls[] =
    "optimizer { sgd {} } learning_rate { peak: 0.5 } accumulation_steps: 2 "
    "micro_batch_rows: 16 ";

// A call with steps [begin, end) of every sequence of `call`, each of `length`
// steps.
Call Steps(const Call& call, int64_t length, int64_t begin, int64_t end) {
  Call part;
  for (int64_t b = 0; b < call.batch.num_sequences(); ++b) {
    for (int64_t n = b * length + begin; n < b * length + end; ++n) {
      part.batch.tokens.push_back(call.batch.tokens[n]);
      part.targets.classes.push_back(call.targets.classes[n]);
      part.targets.weights.push_back(call.targets.weights[n]);
    }
    part.batch.cu_seqlens.push_back(part.batch.tokens.size());
  }
  return part;
}

// The difference between the loss of one long call and that of its two halves.
double LossDifference(const std::string& block, bool continue_streams) {
  const std::string model =
      "input { token_embedding { vocabulary_size: 12 embedding_size: 8 } } "
      "blocks { " +
      block + " } output { linear { size: 12 } } loss { kind: CROSS_ENTROPY }";
  TestTrainer whole("cpu:1", model, kTwoCalls);
  TestTrainer halves("cpu:1,cpu:1", model, kTwoCalls);
  const Call all = RandomCall(whole.model(), {10, 10, 10, 10, 10}, 1);
  Call second = Steps(all, 10, 6, 10);
  second.continue_streams = continue_streams;
  const StepResult once = whole.Step(all);
  const StepResult first = halves.Step(Steps(all, 10, 0, 6));
  const StepResult rest = halves.Step(second);
  return std::abs(first.loss * first.weight + rest.loss * rest.weight -
                  once.loss * once.weight) /
         once.weight;
}

TEST(TrainerStreams, ContinuedCallsSeeWhatOneLongCallSees) {
  for (const char* block :
       {"sru { hidden_size: 16 }",
        "qrnn { hidden_size: 16 num_layers: 2 window: 2 save_prev_x: true }"}) {
    EXPECT_LT(LossDifference(block, true), 1e-6) << block;
    EXPECT_GT(LossDifference(block, false), 1e-5) << block;
  }
}

TEST(TrainerStreams, PreviousRowIsForgottenWithoutSavePrevX) {
  EXPECT_GT(LossDifference("qrnn { hidden_size: 16 window: 2 }", true), 1e-5);
}

TEST(TrainerStreams, RefusesWhatCannotBeContinued) {
  TestTrainer trainer("cpu:1", kSmallModel, kPlainSgd);
  Call call = RandomCall(trainer.model(), {3, 4}, 1);
  call.continue_streams = true;
  EXPECT_EQ(trainer.TryStep(call).status().code(),
            absl::StatusCode::kFailedPrecondition);
  trainer.Step(RandomCall(trainer.model(), {3, 4, 5}, 1));
  EXPECT_EQ(trainer.TryStep(call).status().code(),
            absl::StatusCode::kInvalidArgument);

  TestTrainer both_ways(
      "cpu:1",
      "input { token_embedding { vocabulary_size: 12 embedding_size: 8 } } "
      "blocks { sru { hidden_size: 8 bidirectional: true } } "
      "output { linear { size: 12 } } loss { kind: CROSS_ENTROPY }",
      kPlainSgd);
  both_ways.Step(RandomCall(both_ways.model(), {3, 4}, 1));
  EXPECT_EQ(both_ways.TryStep(call).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace recurve
