#include "engine/model/not_finite_scan.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "engine/model/executor.h"
#include "engine/model/executor_test_util.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

constexpr char kStack[] =
    "input { token_embedding { vocabulary_size: 9 embedding_size: 6 } } "
    "blocks { name: 'a' qrnn { hidden_size: 6 num_layers: 2 window: 2 } } "
    "blocks { name: 'b' sru { hidden_size: 5 num_layers: 1 "
    "proj_input_to_hidden_first: true } } "
    "output { linear { size: 9 } } loss { kind: CROSS_ENTROPY }";

// Three sequences; the token 8 stands in the second one alone.
SequenceBatch Batch() {
  SequenceBatch batch;
  batch.cu_seqlens = {0, 3, 5, 9};
  batch.tokens = {0, 1, 2, 8, 3, 4, 5, 6, 7};
  return batch;
}

std::string Text(const Model& model, const NotFiniteSequence& found) {
  return std::to_string(found.sequence) + ": " +
         Places(model).Name(found.place) + (found.loss ? "" : ", state");
}

// What is found once `count` numbers of a parameter from `first` on are no
// numbers, as texts.
std::vector<std::string> Find(const std::string& parameter, int64_t first,
                              int64_t count) {
  TestExecutor test(kStack);
  auto parameters = test.parameters();
  if (!parameter.empty()) {
    const Parameter* found = test.model().parameters().Find(parameter);
    EXPECT_NE(found, nullptr) << parameter;
    if (found == nullptr) return {};
    for (int64_t i = first; i < first + count; ++i) {
      parameters[found->offset + i] = kNan;
    }
  }
  test.SetParameters(parameters);
  const SequenceBatch batch = Batch();
  ForwardArgs forward;
  forward.batch = &batch;
  forward.mode = Mode::kTraining;
  test.Forward(forward);
  Targets targets;
  targets.classes.assign(9, 1);
  const auto found = test.executor().FindNotFinite(targets);
  EXPECT_TRUE(found.ok()) << found.status();
  std::vector<std::string> texts;
  for (const auto& sequence : *found) {
    texts.push_back(Text(test.model(), sequence));
  }
  return texts;
}

TEST(NotFiniteScan, FindsNothingInFiniteNumbers) {
  EXPECT_THAT(Find("", 0, 0), IsEmpty());
}

TEST(NotFiniteScan, NamesTheSequencesConcernedAlone) {
  EXPECT_THAT(Find("embedding.weight", 8 * 6, 6),
              ElementsAre("1: input embedding"));
}

TEST(NotFiniteScan, NamesTheFirstPlaceInForwardOrder) {
  const auto everywhere = [](const std::string& place) {
    return ElementsAre("0: " + place, "1: " + place, "2: " + place);
  };
  EXPECT_THAT(Find("blocks.0.layers.1.projection", 0, 1),
              everywhere("blocks[0].layer 1"));
  EXPECT_THAT(Find("blocks.1.input_to_hidden.weight", 0, 1),
              everywhere("blocks[1].input_to_hidden"));
  EXPECT_THAT(Find("blocks.1.layers.0.projection", 0, 1),
              everywhere("blocks[1].layer 0"));
  EXPECT_THAT(Find("output.weight", 0, 1), everywhere("output"));
}

// Of an output that is there in tiles.
TEST(NotFiniteScan, FindsTheRowsOfAnyTile) {
  TestExecutor test(
      "input { features { size: 1 } } blocks { sru { hidden_size: 1 "
      "num_layers: 1 } } output { linear { size: 1100 bias: false } } "
      "loss { kind: MEAN_SQUARED_ERROR }");
  // Only where a row is not 0 the weight makes it too large.
  auto parameters = test.parameters();
  const Parameter* weight = test.model().parameters().Find("output.weight");
  ASSERT_NE(weight, nullptr);
  parameters[weight->offset + 1099] = 3e38f;
  test.SetParameters(parameters);
  SequenceBatch batch = RandomBatch(test.model(), {500, 20, 0, 400, 20}, 1);
  std::fill(batch.features.begin(), batch.features.end(), 0.0f);
  ForwardArgs forward;
  forward.batch = &batch;
  forward.mode = Mode::kTraining;
  Targets targets;
  targets.values.assign(940 * 1100, 0.0f);
  const auto find = [&] {
    test.Forward(forward);
    const auto found = test.executor().FindNotFinite(targets);
    EXPECT_TRUE(found.ok()) << found.status();
    std::vector<std::string> texts;
    for (const auto& sequence : *found) {
      texts.push_back(Text(test.model(), sequence));
    }
    return texts;
  };
  EXPECT_THAT(find(), IsEmpty());
  batch.features[519] = 100.0f;  // in the second tile, the sequence in two
  batch.features[939] = 100.0f;
  EXPECT_THAT(find(), ElementsAre("1: output", "4: output"));
}

TEST(NotFiniteScan, AHugeTargetIsFoundInTheLoss) {
  TestExecutor test(
      "input { features { size: 2 } } blocks { sru { hidden_size: 2 } } "
      "output { linear { size: 1 } } loss { kind: MEAN_SQUARED_ERROR }");
  const SequenceBatch batch = RandomBatch(test.model(), {2, 0, 3}, 1);
  ForwardArgs forward;
  forward.batch = &batch;
  forward.mode = Mode::kTraining;
  test.Forward(forward);
  Targets targets;
  targets.values = {0, 0, 0, 3e38f, 0};
  const auto found = test.executor().FindNotFinite(targets);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 1);
  EXPECT_EQ(Text(test.model(), found->front()), "2: loss");
}

TEST(NotFiniteScan, AStateCountsWhereNoLossDoes) {
  TestExecutor test(
      "input { features { size: 2 } } blocks { sru { hidden_size: 2 } } "
      "output { linear { size: 2 } } loss { kind: CROSS_ENTROPY }");
  const SequenceBatch batch = RandomBatch(test.model(), {2, 3}, 1);
  // In the last channel of the last layer.
  std::vector<float> states(2 * test.model().state_size());
  states.back() = kInfinity;
  ForwardArgs forward;
  forward.batch = &batch;
  forward.mode = Mode::kTraining;
  forward.state = states;
  test.Forward(forward);
  Targets targets;
  const int32_t ignored = test.model().ignore_index();
  targets.classes = {0, 1, ignored, ignored, ignored};
  const auto found = test.executor().FindNotFinite(targets);
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->size(), 1);
  EXPECT_EQ(Text(test.model(), found->front()), "1: blocks[0].layer 1, state");
}

TEST(NotFiniteScan, NeedsATrainingPass) {
  TestExecutor test(kStack);
  EXPECT_EQ(test.executor().FindNotFinite({}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(NotFiniteScan, GradientsAreSearchedBackwards) {
  TestExecutor test(kStack);
  const Model& model = test.model();
  std::vector<float> gradients(model.parameters().buffer_size(), 1.0f);
  const auto scan = [&](int64_t begin, int64_t end) -> std::string {
    const auto place = ScanGradients(model, test.backend(),
                                     gradients.data() + begin, begin, end);
    EXPECT_TRUE(place.ok()) << place.status();
    return *place ? Places(model).Name(**place) : "";
  };
  const int64_t size = gradients.size();
  EXPECT_EQ(scan(0, size), "");
  const auto spoil = [&](const std::string& parameter) {
    gradients[model.parameters().Find(parameter)->offset] = kInfinity;
  };
  spoil("embedding.weight");
  EXPECT_EQ(scan(0, size), "input embedding");
  spoil("blocks.0.layers.1.bias");
  EXPECT_EQ(scan(0, size), "blocks[0].layer 1");
  spoil("blocks.1.input_to_hidden.weight");
  EXPECT_EQ(scan(0, size), "blocks[1].input_to_hidden");
  spoil("output.bias");
  EXPECT_EQ(scan(0, size), "output");
  // Parts of the buffer, as devices hold it.
  EXPECT_EQ(scan(0, 16), "input embedding");
  EXPECT_EQ(scan(16, 48), "");
  EXPECT_EQ(scan(model.parameters().Find("output.bias")->offset, size),
            "output");
}

}  // namespace
}  // namespace recurve
