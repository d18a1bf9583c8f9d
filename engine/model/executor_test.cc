#include "engine/model/executor.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/model/activations.h"
#include "engine/model/executor_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/backend.h"
#include "kernels/precision.h"
#include "kernels/tensor.h"

namespace recurve {
namespace {

using testing::HasSubstr;

constexpr char kSru[] = R"(
  input { token_embedding { vocabulary_size: 17 embedding_size: 9 } }
  blocks { sru { hidden_size: 12 num_layers: 3 layer_norm: true
                 projection_size: 5 rescale: true highway_bias: -1 } }
  output { linear { size: 7 } }
  loss { kind: CROSS_ENTROPY })";

constexpr char kQrnn[] = R"(
  input { features { size: 4 } }
  blocks { qrnn { hidden_size: 10 num_layers: 2 window: 2 zoneout: 0.25
                  save_prev_x: true } }
  output { linear { size: 3 } }
  loss { kind: MEAN_SQUARED_ERROR })";

constexpr char kDropout[] = R"(
  input { features { size: 4 } dropout: 0.4 }
  blocks { name: "a" sru { hidden_size: 6 dropout: 0.4 rnn_dropout: 0.4 } }
  blocks { name: "b" qrnn { hidden_size: 5 num_layers: 2 dropout: 0.4
                            zoneout: 0.4 window: 2 save_prev_x: true } }
  output { dropout: 0.4 linear { size: 3 } }
  loss { kind: MEAN_SQUARED_ERROR })";

ForwardArgs Args(const SequenceBatch& batch, Mode mode = Mode::kInference) {
  ForwardArgs args;
  args.batch = &batch;
  args.mode = mode;
  args.open_ends = mode != Mode::kInference;  // tests read the output
  return args;
}

std::vector<float> Concatenate(std::vector<float> a,
                               const std::vector<float>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(Executor, FixedParametersGiveTheBitsOfTrainedOnes) {
  for (const char* config : {kSru, kQrnn}) {
    for (int threads = 1; threads <= 3; ++threads) {
      TestExecutor trained(config);
      TestExecutor fixed(config, CreateCpuBackend(threads),
                         ParameterUse::kFixed);
      const SequenceBatch batch =
          RandomBatch(trained.model(), {5, 0, 130, 1}, 1);
      for (const Mode mode : {Mode::kInference, Mode::kGradients}) {
        EXPECT_EQ(fixed.Output(Args(batch, mode)),
                  trained.Output(Args(batch, mode)));
        EXPECT_EQ(fixed.ToHost(fixed.Forward(Args(batch, mode)).state),
                  trained.ToHost(trained.Forward(Args(batch, mode)).state));
      }
    }
  }
}

TEST(Executor, ModesAgreeBitForBitWithoutDropout) {
  for (const char* config : {kSru, kQrnn}) {
    TestExecutor e(config);
    const SequenceBatch batch = RandomBatch(e.model(), {5, 1, 8}, 1);
    const std::vector<float> inference = e.Output(Args(batch));
    EXPECT_EQ(inference, e.Output(Args(batch, Mode::kGradients)));
    EXPECT_EQ(e.ToHost(e.Forward(Args(batch)).state),
              e.ToHost(e.Forward(Args(batch, Mode::kGradients)).state));
    if (config == kSru) {
      EXPECT_EQ(inference, e.Output(Args(batch, Mode::kTraining)));
    }
  }
}

TEST(Executor, ChunksWithStateEqualTheWholeBitForBit) {
  for (const char* config : {kSru, kQrnn}) {
    TestExecutor e(config);
    const SequenceBatch whole = RandomBatch(e.model(), {30}, 1);
    const std::vector<float> expected = e.Output(Args(whole));
    const std::vector<float> final_state =
        e.ToHost(e.Forward(Args(whole)).state);
    std::vector<float> state, outputs;
    // The rows of `whole` as one-row sequences can be cut anywhere.
    SequenceBatch rows = whole;
    rows.cu_seqlens.clear();
    for (int64_t n = 0; n <= 30; ++n) rows.cu_seqlens.push_back(n);
    int64_t first = 0;
    for (const int64_t length : {1, 7, 2, 20}) {
      SequenceBatch chunk = Slice(e.model(), rows, first, length);
      chunk.cu_seqlens = {0, length};
      ForwardArgs args = Args(chunk);
      args.state = state;
      const ForwardResult result = e.Forward(args);
      outputs = Concatenate(outputs, e.ToHost(result.output));
      state = e.ToHost(result.state);
      first += length;
    }
    EXPECT_EQ(outputs, expected);
    EXPECT_EQ(state, final_state);
  }
}

TEST(Executor, RowsOfTheStateMayComeFromTheDevice) {
  for (const char* config : {kSru, kQrnn}) {
    TestExecutor e(config);
    const int64_t size = e.model().carry_size();
    const SequenceBatch batch = RandomBatch(e.model(), {3, 4}, 1);
    std::vector<float> state(2 * size);
    for (size_t i = 0; i < state.size(); ++i) state[i] = std::sin(i);
    ForwardArgs args = Args(batch);
    args.state = state;
    const std::vector<float> expected = e.Output(args);

    // The second row is somebody else's until it is put there.
    std::vector<float> half = state;
    std::fill(half.begin() + size, half.end(), 7.0f);
    args.state = half;
    args.place_state = [&](Matrix<float> device) {
      EXPECT_EQ(device.rows, 2);
      EXPECT_EQ(device.cols, size);
      return e.backend().Upload(device.row(1), state.data() + size,
                                size * sizeof(float));
    };
    EXPECT_EQ(e.Output(args), expected);

    args.place_state = [](Matrix<float>) {
      return absl::UnavailableError("no row");
    };
    EXPECT_EQ(e.executor().Forward(args).status().message(), "no row");
  }
}

TEST(Executor, ASequenceIsTheSameInAnyBatch) {
  for (const char* config : {kSru, kQrnn}) {
    TestExecutor e(config);
    const SequenceBatch batch = RandomBatch(e.model(), {5, 1, 8, 3}, 1);
    std::vector<float> outputs;
    for (int64_t b = 0; b < 4; ++b) {
      outputs =
          Concatenate(outputs, e.Output(Args(Slice(e.model(), batch, b, 1))));
    }
    EXPECT_EQ(e.Output(Args(batch)), outputs);
  }
}

TEST(Executor, DropoutDependsOnPlaceInTheCallAlone) {
  TestExecutor e(kDropout);
  const SequenceBatch batch = RandomBatch(e.model(), {5, 1, 8, 3}, 1);
  ForwardArgs args = Args(batch, Mode::kTraining);
  args.random.seed = 9;
  const std::vector<float> whole = e.Output(args);
  EXPECT_EQ(whole, e.Output(args));

  std::vector<float> parts;
  for (const int64_t first : {0, 1}) {
    const SequenceBatch part =
        Slice(e.model(), batch, first, first == 0 ? 1 : 3);
    args.batch = &part;
    args.random.first_sequence = first;
    parts = Concatenate(parts, e.Output(args));
  }
  EXPECT_EQ(whole, parts);

  args.batch = &batch;
  args.random.first_sequence = 0;
  RandomContext other_seed = args.random, other_step = args.random,
                other_call = args.random;
  other_seed.seed = 10;
  other_step.step = 1;
  other_call.accumulation = 1;
  for (const RandomContext& other : {other_seed, other_step, other_call}) {
    args.random = other;
    EXPECT_NE(whole, e.Output(args));
  }
}

TEST(Executor, DropoutFollowsThePositionInTheStream) {
  TestExecutor e(kDropout);
  const SequenceBatch whole = RandomBatch(e.model(), {9}, 1);
  const std::vector<float> expected = e.Output(Args(whole, Mode::kTraining));
  const int64_t cut = 4, size = e.model().feature_size();
  SequenceBatch head = {{0, cut}, {}, {}}, tail = {{0, 9 - cut}, {}, {}};
  const auto middle = whole.features.begin() + cut * size;
  head.features.assign(whole.features.begin(), middle);
  tail.features.assign(middle, whole.features.end());
  const ForwardResult first = e.Forward(Args(head, Mode::kTraining));
  const std::vector<float> outputs = e.ToHost(first.output);
  const std::vector<float> state = e.ToHost(first.state);
  ForwardArgs args = Args(tail, Mode::kTraining);
  args.state = state;
  const std::vector<int64_t> positions = {cut};
  args.random.positions = positions;
  EXPECT_EQ(Concatenate(outputs, e.Output(args)), expected);
}

TEST(Executor, ThreadsDoNotChangeBits) {
  TestExecutor one(kDropout, 1), three(kDropout, 3);
  const SequenceBatch batch = RandomBatch(one.model(), {700, 900, 1}, 1);
  const Targets targets = RandomTargets(one.model(), batch, 2);
  EXPECT_EQ(one.Output(Args(batch, Mode::kTraining)),
            three.Output(Args(batch, Mode::kTraining)));
  EXPECT_EQ(one.Gradients(targets), three.Gradients(targets));
}

TEST(Executor, EmptySequencesPassTheirStateThrough) {
  for (const char* config : {kSru, kQrnn}) {
    TestExecutor e(config);
    std::vector<float> state(3 * e.model().state_size());
    for (size_t i = 0; i < state.size(); ++i) state[i] = std::sin(i);
    for (const Mode mode : {Mode::kInference, Mode::kGradients}) {
      const SequenceBatch batch = RandomBatch(e.model(), {0, 4, 0}, 1);
      ForwardArgs args = Args(batch, mode);
      args.state = state;
      const std::vector<float> after = e.ToHost(e.Forward(args).state);
      const int64_t s = e.model().state_size();
      EXPECT_TRUE(std::equal(after.begin(), after.begin() + s, state.begin()));
      EXPECT_TRUE(std::equal(after.begin() + 2 * s, after.end(),
                             state.begin() + 2 * s));

      const SequenceBatch nothing = RandomBatch(e.model(), {0, 0, 0}, 1);
      args.batch = &nothing;
      EXPECT_EQ(e.ToHost(e.Forward(args).state), state);
    }
  }
}

TEST(Executor, PoolsEachSequence) {
  const std::string model = R"(
    input { features { size: 4 } }
    blocks { sru { hidden_size: 5 } }
    output { pooling: )";
  TestExecutor rows(model + "POOLING_NONE }"), last(model + "POOLING_LAST }"),
      mean(model + "POOLING_MEAN }"), max(model + "POOLING_MAX }");
  const SequenceBatch batch = RandomBatch(rows.model(), {3, 1, 6}, 1);
  const std::vector<float> hidden = rows.Output(Args(batch));
  const std::vector<float> last_rows = last.Output(Args(batch));
  const std::vector<float> means = mean.Output(Args(batch));
  const std::vector<float> maxima = max.Output(Args(batch));
  for (int64_t b = 0; b < 3; ++b) {
    for (int64_t c = 0; c < 5; ++c) {
      double sum = 0;
      float largest = -INFINITY;
      for (int64_t n = batch.cu_seqlens[b]; n < batch.cu_seqlens[b + 1]; ++n) {
        sum += hidden[n * 5 + c];
        largest = std::max(largest, hidden[n * 5 + c]);
      }
      const int64_t length = batch.cu_seqlens[b + 1] - batch.cu_seqlens[b];
      EXPECT_EQ(last_rows[b * 5 + c],
                hidden[(batch.cu_seqlens[b + 1] - 1) * 5 + c]);
      EXPECT_NEAR(means[b * 5 + c], sum / length, 1e-6);
      EXPECT_EQ(maxima[b * 5 + c], largest);
    }
  }
}

// The definition, in double.
LossResult CrossEntropy(const std::vector<float>& logits, int64_t cols,
                        const Targets& targets, int32_t ignore_index) {
  LossResult result;
  for (size_t r = 0; r < targets.classes.size(); ++r) {
    if (targets.classes[r] == ignore_index) continue;
    const auto row = logits.begin() + r * cols;
    double sum = 0;
    for (int64_t c = 0; c < cols; ++c) sum += std::exp(double{row[c]});
    const double weight = targets.weights.empty() ? 1 : targets.weights[r];
    result.loss += weight * (std::log(sum) - row[targets.classes[r]]);
    result.weight += weight;
  }
  return result;
}

TEST(Executor, CrossEntropyCountsWhatIsToBeCounted) {
  TestExecutor e(kSru);
  const SequenceBatch batch = RandomBatch(e.model(), {40, 1, 30}, 1);
  const Targets weighted = RandomTargets(e.model(), batch, 2);
  Targets plain = weighted;
  plain.weights.clear();
  ASSERT_GT(std::count(plain.classes.begin(), plain.classes.end(), -1), 0);
  for (const Targets& targets : {weighted, plain}) {
    const std::vector<float> logits = e.Output(Args(batch));
    const LossResult expected = CrossEntropy(logits, 7, targets, -1);
    const auto loss = e.executor().Loss(targets);
    ASSERT_TRUE(loss.ok()) << loss.status();
    EXPECT_NEAR(loss->loss, expected.loss, 1e-4);
    EXPECT_DOUBLE_EQ(loss->weight, expected.weight);
  }
}

TEST(Executor, SquaredErrorIsTheMeanOverColumns) {
  TestExecutor e(kQrnn);
  const SequenceBatch batch = RandomBatch(e.model(), {4, 2}, 1);
  const Targets targets = RandomTargets(e.model(), batch, 2);
  const std::vector<float> output = e.Output(Args(batch));
  double expected = 0;
  for (size_t i = 0; i < output.size(); ++i) {
    const double d = output[i] - targets.values[i];
    expected += targets.weights[i / 3] * d * d / 3;
  }
  const auto loss = e.executor().Loss(targets);
  ASSERT_TRUE(loss.ok()) << loss.status();
  EXPECT_NEAR(loss->loss, expected, 1e-5);
}

TEST(Executor, ASmallerBatchAfterALargerOne) {
  TestExecutor e(kSru);
  const SequenceBatch small = RandomBatch(e.model(), {3}, 1);
  const SequenceBatch large = RandomBatch(e.model(), {50, 60}, 1);
  const Targets targets = RandomTargets(e.model(), small, 2);
  const std::vector<float> output = e.Output(Args(small, Mode::kTraining));
  const std::vector<float> gradients = e.Gradients(targets);
  e.Output(Args(large, Mode::kTraining));
  EXPECT_EQ(e.Output(Args(small)), output);
  EXPECT_EQ(e.Output(Args(small, Mode::kTraining)), output);
  EXPECT_EQ(e.Gradients(targets), gradients);
}

TEST(Executor, StepsOutOfOrderAreRefused) {
  TestExecutor e(kSru);
  const SequenceBatch batch = RandomBatch(e.model(), {3}, 1);
  const Targets targets = RandomTargets(e.model(), batch, 2);
  std::vector<float> gradients(e.model().parameters().buffer_size());
  std::vector<float> doutput(3 * e.model().output_size());
  const Matrix<float> given(doutput.data(), 3, e.model().output_size());
  BackwardArgs args;
  args.gradients = gradients.data();
  const auto loss = [&] {
    return e.executor().LossAndBackward(targets, args).status();
  };
  const auto backward = [&] { return e.executor().Backward(given, args); };
  const auto refused = [](const absl::Status& status) {
    return status.code() == absl::StatusCode::kFailedPrecondition;
  };
  EXPECT_TRUE(refused(e.executor().Loss(targets).status()));
  EXPECT_TRUE(refused(loss()));
  EXPECT_TRUE(refused(backward()));
  e.Forward(Args(batch));
  EXPECT_TRUE(refused(loss()));
  EXPECT_TRUE(refused(backward()));
  EXPECT_TRUE(e.executor().Loss(targets).ok());
  e.Forward(Args(batch, Mode::kGradients));
  EXPECT_TRUE(loss().ok());
  EXPECT_TRUE(refused(loss()));
  EXPECT_TRUE(refused(backward()));
  EXPECT_TRUE(refused(e.executor().Loss(targets).status()));
  ForwardArgs forward = Args(batch, Mode::kGradients);
  e.Forward(forward);
  EXPECT_TRUE(backward().ok());
  EXPECT_TRUE(refused(backward()));
  forward.open_ends = false;  // has no output
  EXPECT_FALSE(e.Forward(forward).output);
  EXPECT_TRUE(refused(backward()));
  EXPECT_TRUE(e.executor().Loss(targets).ok());
  EXPECT_TRUE(loss().ok());
}

TEST(Executor, SizesThatDoNotFitAreRefused) {
  TestExecutor e(kDropout);
  const SequenceBatch batch = RandomBatch(e.model(), {3}, 1);
  const auto message = [&](const ForwardArgs& args) {
    const auto result = e.executor().Forward(args);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(result.status().message());
  };
  const std::vector<float> state(1);
  const std::vector<int64_t> positions(2);
  std::vector<LayerMasks> masks(4);
  ForwardArgs args = Args(batch, Mode::kTraining);
  args.state = state;
  EXPECT_THAT(message(args), HasSubstr("state: 1 numbers"));
  args.state = {};
  args.random.positions = positions;
  EXPECT_THAT(message(args), HasSubstr("positions: 2"));
  args.random.positions = {};
  args.masks = &masks;
  EXPECT_THAT(message(args), HasSubstr("layer 0: the cell mask has 0"));
  masks.pop_back();
  EXPECT_THAT(message(args), HasSubstr("masks of 3 layers"));

  e.Forward(Args(batch));
  EXPECT_THAT(e.executor().Loss(Targets()).status().message(),
              HasSubstr("do not fit the 3 rows"));
}

TEST(Executor, StateGradientGoesThrough) {
  // With a forget gate that is open all the way, c passes on unchanged.
  TestExecutor e(R"(
    input { features { size: 4 } }
    blocks { sru { hidden_size: 5 num_layers: 1 } }
    loss { kind: MEAN_SQUARED_ERROR })");
  std::vector<float> parameters = e.parameters();
  const Parameter& bias =
      *e.model().parameters().Find("blocks.0.layers.0.bias");
  std::fill_n(parameters.begin() + bias.offset, 5, 100.0f);
  std::fill_n(parameters.begin() + bias.offset + 5, 5, -100.0f);
  e.SetParameters(parameters);
  const SequenceBatch batch = RandomBatch(e.model(), {6, 2}, 1);
  ForwardArgs forward = Args(batch, Mode::kGradients);
  e.Forward(forward);
  std::vector<float> output(8 * 5, 0.0f), gradients(parameters.size());
  std::vector<float> dstate(10), dstate_in, dfeatures;
  for (int i = 0; i < 10; ++i) dstate[i] = i;
  const Matrix<float> doutput(output.data(), 8, 5);
  BackwardArgs args;
  args.dstate = dstate;
  args.gradients = gradients.data();
  args.dstate_in = &dstate_in;
  args.dfeatures = &dfeatures;
  ASSERT_TRUE(e.executor().Backward(doutput, args).ok());
  EXPECT_EQ(dstate_in, dstate);
  EXPECT_EQ(dfeatures, std::vector<float>(8 * 4, 0.0f));

  forward.open_ends = false;  // has no memory for them
  e.Forward(forward);
  EXPECT_TRUE(absl::IsFailedPrecondition(e.executor().Backward(doutput, args)));
  Targets targets = RandomTargets(e.model(), batch, 2);
  EXPECT_TRUE(absl::IsFailedPrecondition(
      e.executor().LossAndBackward(targets, args).status()));
}

// --- Outputs that are taken in tiles of rows ---

struct TiledCase {
  const char* name;
  const char* config;
};

const TiledCase kTiledCases[] = {
    {"LanguageModel", R"(
      input { token_embedding { vocabulary_size: 1100 embedding_size: 9 } }
      blocks { sru { hidden_size: 9 num_layers: 1 } }
      output { dropout: 0.3 linear { size: 1100 } }
      loss { kind: CROSS_ENTROPY })"},
    {"TiedWithoutBias", R"(
      input { token_embedding { vocabulary_size: 1030 embedding_size: 10 } }
      blocks { qrnn { hidden_size: 10 num_layers: 1 } }
      output { linear { size: 1030 tied: true bias: false } }
      loss { kind: CROSS_ENTROPY })"},
    {"SquaredError", R"(
      input { features { size: 5 } }
      blocks { sru { hidden_size: 6 num_layers: 1 } }
      output { linear { size: 1025 } }
      loss { kind: MEAN_SQUARED_ERROR })"},
};

class TiledOutput : public testing::TestWithParam<TiledCase> {
 protected:
  struct Result {
    double loss, loss_alone;
    std::vector<float> gradients;

    friend bool operator==(const Result&, const Result&) = default;
  };

  // A pass of two sequences in training, its output whole or in tiles.
  Result Run(int64_t rows, bool whole, int threads = 2,
             Precision products = Precision::kFloat32) {
    TestExecutor e(GetParam().config, CreateCpuBackend(threads, products));
    const SequenceBatch batch =
        RandomBatch(e.model(), {rows / 3, rows - rows / 3}, 1);
    const Targets targets = RandomTargets(e.model(), batch, 2);
    ForwardArgs args = Args(batch, Mode::kTraining);
    args.open_ends = whole;
    EXPECT_EQ(static_cast<bool>(e.Forward(args).output), whole);
    Result result;
    result.loss_alone = e.executor().Loss(targets).value().loss;
    result.gradients = e.Gradients(targets, &result.loss);
    return result;
  }
};

// The sums over a block's rows go on from tile to tile.
TEST_P(TiledOutput, HasTheBitsOfTheWhole) {
  for (const int64_t rows :
       {int64_t{0}, int64_t{1}, kOutputTileRows - 1, kOutputTileRows,
        kOutputTileRows + 1, 2 * kOutputTileRows, kRowBlock}) {
    const Result tiles = Run(rows, /*whole=*/false);
    EXPECT_EQ(tiles, Run(rows, /*whole=*/true)) << rows;
    EXPECT_EQ(tiles.loss, tiles.loss_alone);
    EXPECT_EQ(tiles.loss > 0, rows > 0);
  }
  EXPECT_EQ(Run(1000, false, 2, Precision::kBfloat16),
            Run(1000, true, 2, Precision::kBfloat16));
}

TEST_P(TiledOutput, OfMoreRowsThanABlockHasOneChainOfSums) {
  const int64_t rows = 2 * kRowBlock + 100;
  const Result tiles = Run(rows, false);
  EXPECT_EQ(tiles, Run(rows, false, /*threads=*/3));
  const Result whole = Run(rows, true);
  EXPECT_EQ(tiles.loss, whole.loss);
  for (size_t i = 0; i < whole.gradients.size(); ++i) {
    ASSERT_NEAR(tiles.gradients[i], whole.gradients[i],
                1e-5 * (1 + std::abs(whole.gradients[i])))
        << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TiledOutput, testing::ValuesIn(kTiledCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace recurve
