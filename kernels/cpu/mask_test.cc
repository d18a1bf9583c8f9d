#include "kernels/cpu/mask.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/backend.h"
#include "kernels/cpu/test_util.h"
#include "kernels/random.h"

namespace recurve::cpu {
namespace {

const RandomKey kKey = {.seed = 123,
                        .purpose = RandomPurpose::kDropout,
                        .step = 17,
                        .accumulation = 1,
                        .layer = 3};

// One element as mask.h defines it.
float Element(const MaskArgs& args, int64_t sequence, uint64_t position,
              int64_t channel) {
  const RandomBlock block = Philox(
      {static_cast<uint32_t>(channel / 4), static_cast<uint32_t>(position),
       static_cast<uint32_t>(position >> 32),
       static_cast<uint32_t>(args.first_sequence + sequence)},
      StreamKey(args.key));
  return UniformFloat(block[channel % 4]) < args.keep_probability ? args.scale
                                                                  : 0.0f;
}

// A mask of sequences of these lengths, with what it points to.
struct Mask {
  Mask(std::vector<int64_t> cu, int64_t channels, bool variational)
      : cu_seqlens(std::move(cu)) {
    args.key = kKey;
    args.keep_probability = 0.75f;
    args.scale = 1.5f;
    args.variational = variational;
    args.layout = {static_cast<int64_t>(cu_seqlens.size()) - 1,
                   cu_seqlens.back(), cu_seqlens.data()};
    const int64_t rows =
        variational ? args.layout.num_sequences : args.layout.num_rows;
    values.assign(rows * channels, -1.0f);
    args.mask = {values.data(), rows, channels};
  }
  Mask(const Mask&) = delete;

  std::vector<int64_t> cu_seqlens;
  std::vector<float> values;
  MaskArgs args;
};

TEST(FillMask, FollowsTheDefinitionForEveryRow) {
  ForEachInstructionSet([] {
    for (int64_t channels : {1, 2, 3, 4, 5, 31, 32, 33, 64, 100}) {
      Mask mask(RandomCuSeqlens(7, 5, channels), channels, false);
      const std::vector<int64_t> positions = {
          0, 5, (int64_t{1} << 32) - 2, 7, 11, int64_t{1} << 40, 3};
      mask.args.positions = positions.data();
      mask.args.first_sequence = 9;
      ASSERT_TRUE(FillMask(mask.args).ok());
      for (int64_t b = 0; b < mask.args.layout.num_sequences; ++b) {
        const int64_t begin = mask.cu_seqlens[b];
        for (int64_t row = begin; row < mask.cu_seqlens[b + 1]; ++row) {
          for (int64_t c = 0; c < channels; ++c) {
            ASSERT_EQ(mask.args.mask.row(row)[c],
                      Element(mask.args, b, positions[b] + row - begin, c))
                << "sequence " << b << " row " << row << " channel " << c;
          }
        }
      }
    }
  });
}

TEST(FillMask, VariationalMaskIsTheSameAtEveryPosition) {
  ForEachInstructionSet([] {
    Mask mask({0, 3, 3, 10}, 37, true);
    const std::vector<int64_t> positions = {100, 200, 300};
    mask.args.positions = positions.data();
    ASSERT_TRUE(FillMask(mask.args).ok());
    for (int64_t b = 0; b < 3; ++b) {
      for (int64_t c = 0; c < 37; ++c) {
        ASSERT_EQ(mask.args.mask.row(b)[c], Element(mask.args, b, 0, c));
      }
    }
  });
}

TEST(FillMask, IsTheSameForAnyThreads) {
  for (bool variational : {false, true}) {
    ExpectSameForAnyThreads([=] {
      Mask mask(RandomCuSeqlens(200, 20, 1), 167, variational);
      EXPECT_TRUE(FillMask(mask.args).ok());
      return mask.values;
    });
  }
}

TEST(FillMask, CutIntoMicroBatchesOrInTimeChangesNothing) {
  // Sequences of 6, 0 and 8 rows at once; then sequence 0 alone, and sequences
  // 1 and 2 in two chunks of time.
  Mask whole({0, 6, 6, 14}, 21, false);
  ASSERT_TRUE(FillMask(whole.args).ok());

  Mask first({0, 6}, 21, false);
  ASSERT_TRUE(FillMask(first.args).ok());
  Mask head({0, 0, 5}, 21, false);
  head.args.first_sequence = 1;
  ASSERT_TRUE(FillMask(head.args).ok());
  Mask tail({0, 0, 3}, 21, false);
  tail.args.first_sequence = 1;
  const std::vector<int64_t> positions = {0, 5};
  tail.args.positions = positions.data();
  ASSERT_TRUE(FillMask(tail.args).ok());

  std::vector<float> pieces;
  for (const Mask* mask : {&first, &head, &tail}) {
    pieces.insert(pieces.end(), mask->values.begin(), mask->values.end());
  }
  EXPECT_EQ(pieces, whole.values);
}

TEST(FillMask, LeavesWhatLiesBetweenRowsAlone) {
  std::vector<float> values(10 * 50, 7.0f);
  Mask mask({0, 10}, 1, false);
  mask.args.mask = {values.data(), 10, 45, 50};
  ASSERT_TRUE(FillMask(mask.args).ok());
  for (int64_t r = 0; r < 10; ++r) {
    for (int64_t c = 0; c < 50; ++c) {
      EXPECT_EQ(values[50 * r + c] == 7.0f, c >= 45);
    }
  }
}

TEST(FillMask, ProbabilitiesZeroAndOneAreExact) {
  ForEachInstructionSet([] {
    Mask mask({0, 300}, 64, false);
    mask.args.keep_probability = 0.0f;
    ASSERT_TRUE(FillMask(mask.args).ok());
    EXPECT_EQ(mask.values, std::vector<float>(300 * 64, 0.0f));
    mask.args.keep_probability = 1.0f;
    ASSERT_TRUE(FillMask(mask.args).ok());
    EXPECT_EQ(mask.values, std::vector<float>(300 * 64, 1.5f));
  });
}

TEST(FillMask, KeepsTheAskedFractionInEveryChannelAndRow) {
  constexpr int64_t kRows = 4096;
  constexpr int64_t kChannels = 256;
  for (float keep : {0.1f, 0.5f, 0.8f}) {
    Mask mask({0, kRows}, kChannels, false);
    mask.args.keep_probability = keep;
    mask.args.scale = 1.0f;
    ASSERT_TRUE(FillMask(mask.args).ok());
    std::vector<double> by_row(kRows), by_channel(kChannels);
    double all = 0.0;
    for (int64_t r = 0; r < kRows; ++r) {
      for (int64_t c = 0; c < kChannels; ++c) {
        by_row[r] += mask.args.mask.row(r)[c];
        by_channel[c] += mask.args.mask.row(r)[c];
        all += mask.args.mask.row(r)[c];
      }
    }
    // Six standard deviations of a mean of n decisions.
    const auto bound = [&](double n) {
      return 6.0 * std::sqrt(keep * (1.0 - keep) / n);
    };
    EXPECT_NEAR(all / (kRows * kChannels), keep, bound(kRows * kChannels));
    for (double sum : by_row) {
      EXPECT_NEAR(sum / kChannels, keep, bound(kChannels));
    }
    for (double sum : by_channel) {
      EXPECT_NEAR(sum / kRows, keep, bound(kRows));
    }
  }
}

TEST(FillMask, NeighboursAreUncorrelated) {
  constexpr int64_t kRows = 2048;
  constexpr int64_t kChannels = 512;
  Mask mask({0, kRows}, kChannels, false);
  mask.args.keep_probability = 0.5f;
  mask.args.scale = 1.0f;
  ASSERT_TRUE(FillMask(mask.args).ok());
  const auto correlation = [&](int64_t rows, int64_t channels) {
    double sum = 0.0;
    for (int64_t r = 0; r + rows < kRows; ++r) {
      for (int64_t c = 0; c + channels < kChannels; ++c) {
        sum += (2 * mask.args.mask.row(r)[c] - 1) *
               (2 * mask.args.mask.row(r + rows)[c + channels] - 1);
      }
    }
    return sum / (kRows * kChannels);
  };
  const double bound = 6.0 / std::sqrt(kRows * kChannels);
  for (int64_t lag : {1, 2, 3, 4, 16, 32}) {
    EXPECT_NEAR(correlation(0, lag), 0.0, bound) << lag << " channels";
    EXPECT_NEAR(correlation(lag, 0), 0.0, bound) << lag << " rows";
  }
}

TEST(FillMask, OtherStreamsGiveOtherMasks) {
  Mask base({0, 8}, 64, false);
  ASSERT_TRUE(FillMask(base.args).ok());
  std::vector<RandomKey> keys(4, kKey);
  keys[0].seed += 1;
  keys[1].step += 1;
  keys[2].accumulation += 1;
  keys[3].layer += 1;
  for (const RandomKey& key : keys) {
    Mask other({0, 8}, 64, false);
    other.args.key = key;
    ASSERT_TRUE(FillMask(other.args).ok());
    EXPECT_NE(other.values, base.values);
  }
}

TEST(FillMask, AcceptsAnEmptyBatch) {
  Mask mask({0}, 8, false);
  EXPECT_TRUE(FillMask(mask.args).ok());
  Mask variational({0}, 8, true);
  EXPECT_TRUE(FillMask(variational.args).ok());
}

TEST(FillMask, RefusesContradictions) {
  const auto code_after = [](void (*change)(MaskArgs&)) {
    Mask mask({0, 3, 5}, 4, false);
    change(mask.args);
    return FillMask(mask.args).code();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code_after([](MaskArgs& args) { args.mask.rows = 4; }), kInvalid);
  EXPECT_EQ(code_after([](MaskArgs& args) { args.variational = true; }),
            kInvalid);
  EXPECT_EQ(code_after([](MaskArgs& args) { args.keep_probability = 1.25f; }),
            kInvalid);
  EXPECT_EQ(code_after([](MaskArgs& args) { args.keep_probability = NAN; }),
            kInvalid);
  EXPECT_EQ(code_after([](MaskArgs& args) {
              args.first_sequence = (int64_t{1} << 32) - 1;
            }),
            kInvalid);
}

}  // namespace
}  // namespace recurve::cpu
