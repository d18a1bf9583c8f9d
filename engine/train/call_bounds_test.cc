#include "engine/train/call_bounds.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/data/batches.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

// Over all batches of some epochs.
CallBounds Observed(const Dataset& dataset, const v1::LoaderConfig& config) {
  const auto maker =
      *BatchMaker::Create(std::make_shared<const Dataset>(dataset), config, 3);
  CallBounds most;
  most.shortest_sequence = INT64_MAX;
  for (int64_t epoch = 0; epoch < 5; ++epoch) {
    for (int64_t b = 0; b < maker->batches_per_epoch(); ++b) {
      const SequenceBatch batch = maker->Make(epoch, b).sequences;
      most.rows = std::max(most.rows, batch.num_rows());
      most.sequences = std::max(most.sequences, batch.num_sequences());
      for (int64_t i = 0; i < batch.num_sequences(); ++i) {
        const int64_t length = batch.cu_seqlens[i + 1] - batch.cu_seqlens[i];
        most.longest_sequence = std::max(most.longest_sequence, length);
        most.shortest_sequence = std::min(most.shortest_sequence, length);
      }
    }
  }
  return most;
}

TEST(CallBounds, OfTextAreThoseOfItsBatches) {
  for (const int64_t tokens : {5, 41, 44, 47, 48, 200}) {
    for (const int64_t unroll : {1, 7, 10, 1000}) {
      for (const bool drop_last : {false, true}) {
        TextDataset text;
        text.tokens.assign(tokens, 0);
        v1::LoaderConfig config;
        config.set_batch_size(4);
        config.set_unroll(unroll);
        config.set_drop_last(drop_last);
        if ((tokens - 1) / 4 < unroll && drop_last) continue;  // no batch
        const CallBounds bounds = BoundsOfBatches(text, config);
        const CallBounds observed = Observed(text, config);
        EXPECT_EQ(bounds.rows, observed.rows);
        EXPECT_EQ(bounds.sequences, observed.sequences);
        EXPECT_EQ(bounds.longest_sequence, observed.longest_sequence);
        EXPECT_EQ(bounds.shortest_sequence, observed.shortest_sequence);
      }
    }
  }
}

TEST(CallBounds, OfSequencesAreThoseOfTheLongestTogether) {
  SequenceDataset data;
  for (const int64_t length : {3, 9, 1, 4, 9, 2, 8}) {
    data.sequences.cu_seqlens.push_back(data.sequences.cu_seqlens.back() +
                                        length);
  }
  data.sequences.tokens.assign(36, 0);
  data.targets.classes.assign(7, 0);
  v1::LoaderConfig config;
  config.set_batch_size(3);
  const CallBounds bounds = BoundsOfBatches(data, config);
  EXPECT_EQ(bounds.rows, 26);
  EXPECT_EQ(bounds.sequences, 3);
  EXPECT_EQ(bounds.longest_sequence, 9);
  EXPECT_EQ(bounds.shortest_sequence, 1);
  EXPECT_LE(Observed(data, config).rows, bounds.rows);

  config.set_batch_size(100);
  EXPECT_EQ(BoundsOfBatches(data, config).rows, Observed(data, config).rows);
  EXPECT_EQ(BoundsOfBatches(data, config).sequences, 7);
}

}  // namespace
}  // namespace recurve
