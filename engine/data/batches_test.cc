#include "engine/data/batches.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::shared_ptr<const Dataset> Text(int64_t count) {
  TextDataset text;
  text.tokens.resize(count);
  std::iota(text.tokens.begin(), text.tokens.end(), 100);
  return std::make_shared<Dataset>(std::move(text));
}

// Sequence i has length 1 + i % 3 and tokens 10 i, 10 i + 1, ...; class i.
std::shared_ptr<const Dataset> Sequences(int64_t count) {
  SequenceDataset data;
  for (int32_t i = 0; i < count; ++i) {
    const int32_t length = 1 + i % 3;
    for (int32_t t = 0; t < length; ++t) {
      data.sequences.tokens.push_back(10 * i + t);
    }
    data.sequences.cu_seqlens.push_back(data.sequences.num_rows() + length);
    data.targets.classes.push_back(i);
  }
  return std::make_shared<Dataset>(std::move(data));
}

v1::LoaderConfig Config(int batch_size, int unroll = 0,
                        bool drop_last = false) {
  v1::LoaderConfig config;
  config.set_batch_size(batch_size);
  config.set_unroll(unroll);
  config.set_drop_last(drop_last);
  return config;
}

std::unique_ptr<BatchMaker> Make(std::shared_ptr<const Dataset> dataset,
                                 const v1::LoaderConfig& config,
                                 uint64_t seed = 1) {
  auto maker = BatchMaker::Create(std::move(dataset), config, seed);
  EXPECT_TRUE(maker.ok()) << maker.status();
  return *std::move(maker);
}

std::string Error(std::shared_ptr<const Dataset> dataset,
                  const v1::LoaderConfig& config) {
  const auto maker = BatchMaker::Create(std::move(dataset), config, 1);
  EXPECT_EQ(maker.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(maker.status().message());
}

// What training code for language models has always done: cut the text into
// columns of one length, walk down them `unroll` rows at a time.
std::vector<Batch> SlowTextEpoch(const std::vector<int32_t>& tokens,
                                 int columns, int unroll, bool drop_last) {
  const int length = (static_cast<int>(tokens.size()) - 1) / columns;
  std::vector<std::vector<int32_t>> inputs(length), targets(length);
  for (int t = 0; t < length; ++t) {
    for (int column = 0; column < columns; ++column) {
      inputs[t].push_back(tokens[column * length + t]);
      targets[t].push_back(tokens[column * length + t + 1]);
    }
  }
  std::vector<Batch> batches;
  for (int row = 0; row < length; row += unroll) {
    const int end = std::min(row + unroll, length);
    if (drop_last && end - row < unroll) break;
    Batch batch;
    batch.continue_streams = row > 0;
    for (int column = 0; column < columns; ++column) {
      for (int t = row; t < end; ++t) {
        batch.sequences.tokens.push_back(inputs[t][column]);
        batch.targets.classes.push_back(targets[t][column]);
      }
      batch.sequences.cu_seqlens.push_back(batch.sequences.tokens.size());
    }
    batches.push_back(batch);
  }
  return batches;
}

TEST(TextBatches, AgreeWithTheSlowReference) {
  int compared = 0;
  for (int count : {2, 3, 10, 17, 31, 64, 65}) {
    for (int columns : {1, 2, 3, 5}) {
      for (int unroll : {1, 3, 4, 100}) {
        for (bool drop_last : {false, true}) {
          const auto dataset = Text(count);
          const std::vector<Batch> expected =
              SlowTextEpoch(std::get<TextDataset>(*dataset).tokens, columns,
                            unroll, drop_last);
          if (expected.empty()) continue;
          const auto maker = Make(dataset, Config(columns, unroll, drop_last));
          ASSERT_EQ(maker->batches_per_epoch(), expected.size());
          for (size_t i = 0; i < expected.size(); ++i, ++compared) {
            const Batch batch = maker->Make(2, i);
            ASSERT_EQ(batch.sequences.tokens, expected[i].sequences.tokens);
            ASSERT_EQ(batch.sequences.cu_seqlens,
                      expected[i].sequences.cu_seqlens);
            ASSERT_EQ(batch.targets.classes, expected[i].targets.classes);
            ASSERT_EQ(batch.continue_streams, expected[i].continue_streams);
            ASSERT_EQ(batch.epoch, 2);
          }
        }
      }
    }
  }
  EXPECT_GT(compared, 500);
}

TEST(TextBatches, RefuseWhatMakesNoBatch) {
  EXPECT_THAT(Error(Text(4), Config(4, 1)), HasSubstr("too short"));
  EXPECT_THAT(Error(Text(0), Config(1, 1)), HasSubstr("too short"));
  EXPECT_THAT(Error(Text(9), Config(2, 5, true)), HasSubstr("too short"));
  EXPECT_THAT(Error(Text(9), Config(0, 5)), HasSubstr("batch_size: 0"));
  EXPECT_THAT(Error(Text(9), Config(2, 0)), HasSubstr("unroll: 0"));
  EXPECT_THAT(Error(Text(9), Config(2, 1 << 30)), HasSubstr("times unroll"));
  v1::LoaderConfig shuffled = Config(2, 2);
  shuffled.set_shuffle(true);
  EXPECT_THAT(Error(Text(9), shuffled), HasSubstr("shuffle"));
}

TEST(SequenceBatches, KeepTheFilesOrderUnshuffled) {
  v1::LoaderConfig config = Config(2);
  config.set_shuffle(false);
  const auto maker = Make(Sequences(5), config);
  ASSERT_EQ(maker->batches_per_epoch(), 3);
  const Batch batch = maker->Make(0, 1);
  EXPECT_THAT(batch.sequences.cu_seqlens, ElementsAre(0, 3, 4));
  EXPECT_THAT(batch.sequences.tokens, ElementsAre(20, 21, 22, 30));
  EXPECT_THAT(batch.targets.classes, ElementsAre(2, 3));
  EXPECT_THAT(batch.targets.weights, IsEmpty());
  EXPECT_FALSE(batch.continue_streams);
  EXPECT_THAT(maker->Make(0, 2).targets.classes, ElementsAre(4));
}

TEST(SequenceBatches, DropAnIncompleteLastBatch) {
  EXPECT_EQ(Make(Sequences(5), Config(2, 0, true))->batches_per_epoch(), 2);
  EXPECT_EQ(Make(Sequences(6), Config(2, 0, true))->batches_per_epoch(), 3);
  EXPECT_THAT(Error(Sequences(5), Config(6, 0, true)), HasSubstr("too short"));
}

// The classes of an epoch's sequences, in order.
std::vector<int32_t> EpochOrder(BatchMaker& maker, int64_t epoch) {
  std::vector<int32_t> order;
  for (int64_t i = 0; i < maker.batches_per_epoch(); ++i) {
    const Batch batch = maker.Make(epoch, i);
    order.insert(order.end(), batch.targets.classes.begin(),
                 batch.targets.classes.end());
  }
  return order;
}

TEST(SequenceBatches, ShuffleEachEpochAnew) {
  const auto maker = Make(Sequences(50), Config(8));
  const std::vector<int32_t> first = EpochOrder(*maker, 0);
  const std::vector<int32_t> second = EpochOrder(*maker, 1);
  EXPECT_EQ(std::set<int32_t>(first.begin(), first.end()).size(), 50u);
  EXPECT_EQ(std::set<int32_t>(second.begin(), second.end()).size(), 50u);
  EXPECT_NE(first, second);
  EXPECT_EQ(EpochOrder(*maker, 0), first);  // going back is allowed
  EXPECT_EQ(EpochOrder(*Make(Sequences(50), Config(8)), 1), second);
  EXPECT_NE(EpochOrder(*Make(Sequences(50), Config(8), 2), 0), first);
}

TEST(SequenceBatches, KeepInputsAndTargetsTogether) {
  const auto maker = Make(Sequences(20), Config(7));
  for (int64_t index = 0; index < 3; ++index) {
    const Batch batch = maker->Make(3, index);
    for (int64_t b = 0; b < batch.sequences.num_sequences(); ++b) {
      const int64_t begin = batch.sequences.cu_seqlens[b];
      const int64_t end = batch.sequences.cu_seqlens[b + 1];
      const int32_t id = batch.targets.classes[b];
      ASSERT_EQ(end - begin, 1 + id % 3);
      for (int64_t t = begin; t < end; ++t) {
        ASSERT_EQ(batch.sequences.tokens[t], 10 * id + (t - begin));
      }
    }
  }
}

TEST(SequenceBatches, GatherFeaturesValuesAndWeightsAStep) {
  SequenceDataset data;
  data.sequences.cu_seqlens = {0, 1, 3};
  data.sequences.features = {1, 2, 3, 4, 5, 6};
  data.feature_size = 2;
  data.per_step = true;
  data.targets.values = {10, 20, 30};
  data.target_size = 1;
  data.targets.weights = {0.1f, 0.2f, 0.3f};
  v1::LoaderConfig config = Config(1);
  config.set_shuffle(false);
  const auto maker = Make(std::make_shared<Dataset>(std::move(data)), config);
  const Batch batch = maker->Make(0, 1);
  EXPECT_THAT(batch.sequences.features, ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(batch.targets.values, ElementsAre(20, 30));
  EXPECT_THAT(batch.targets.weights, ElementsAre(0.2f, 0.3f));
}

TEST(SequenceBatches, RefuseUnroll) {
  EXPECT_THAT(Error(Sequences(5), Config(2, 3)), HasSubstr("unroll: 3"));
  EXPECT_THAT(Error(Sequences(5), Config(-1)), HasSubstr("batch_size: -1"));
}

}  // namespace
}  // namespace recurve
