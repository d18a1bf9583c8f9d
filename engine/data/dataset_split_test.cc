#include "engine/data/dataset_split.h"

#include <variant>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(DatasetSplitTest, CutsTheEndOfAText) {
  Dataset text = TextDataset{{1, 2, 3, 4, 5}};
  EXPECT_EQ(DatasetSize(text), 5);
  const Dataset end = CutEnd(2, &text);
  EXPECT_THAT(std::get<TextDataset>(text).tokens, ElementsAre(1, 2, 3));
  EXPECT_THAT(std::get<TextDataset>(end).tokens, ElementsAre(4, 5));
}

TEST(DatasetSplitTest, CutsWholeSequencesWithTheirTargetsAStep) {
  SequenceDataset data;
  data.sequences.cu_seqlens = {0, 2, 3, 6};
  data.sequences.features = {1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6};
  data.feature_size = 2;
  data.per_step = true;
  data.targets.values = {10, 20, 30, 40, 50, 60};
  data.target_size = 1;
  data.targets.weights = {1, 2, 3, 4, 5, 6};
  Dataset dataset = data;
  EXPECT_EQ(DatasetSize(dataset), 3);
  const auto end = std::get<SequenceDataset>(CutEnd(2, &dataset));
  const auto& rest = std::get<SequenceDataset>(dataset);
  EXPECT_THAT(rest.sequences.cu_seqlens, ElementsAre(0, 2));
  EXPECT_THAT(rest.sequences.features, ElementsAre(1, 1, 2, 2));
  EXPECT_THAT(rest.targets.values, ElementsAre(10, 20));
  EXPECT_THAT(rest.targets.weights, ElementsAre(1, 2));
  EXPECT_THAT(end.sequences.cu_seqlens, ElementsAre(0, 1, 4));
  EXPECT_THAT(end.sequences.features, ElementsAre(3, 3, 4, 4, 5, 5, 6, 6));
  EXPECT_THAT(end.targets.values, ElementsAre(30, 40, 50, 60));
  EXPECT_THAT(end.targets.weights, ElementsAre(3, 4, 5, 6));
  EXPECT_EQ(end.feature_size, 2);
  EXPECT_EQ(end.target_size, 1);
  EXPECT_TRUE(end.per_step);
}

TEST(DatasetSplitTest, CutsTargetsASequence) {
  SequenceDataset data;
  data.sequences.cu_seqlens = {0, 2, 3};
  data.sequences.tokens = {7, 8, 9};
  data.targets.classes = {1, 2};
  Dataset dataset = data;
  const auto end = std::get<SequenceDataset>(CutEnd(1, &dataset));
  const auto& rest = std::get<SequenceDataset>(dataset);
  EXPECT_THAT(rest.sequences.tokens, ElementsAre(7, 8));
  EXPECT_THAT(rest.targets.classes, ElementsAre(1));
  EXPECT_THAT(end.sequences.tokens, ElementsAre(9));
  EXPECT_THAT(end.targets.classes, ElementsAre(2));
  EXPECT_THAT(end.targets.weights, IsEmpty());
}

}  // namespace
}  // namespace recurve
