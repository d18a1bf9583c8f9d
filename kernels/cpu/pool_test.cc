#include "kernels/cpu/pool.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"
#include "kernels/cell_args.h"
#include "kernels/cpu/test_util.h"

namespace recurve::cpu {
namespace {

constexpr PoolKind kKinds[] = {PoolKind::kLast, PoolKind::kMean,
                               PoolKind::kMax};

// A batch with all buffers of forward and backward.
struct Batch {
  Batch(PoolKind kind, std::vector<int64_t> cu, int64_t channels, uint32_t seed)
      : cu_seqlens(std::move(cu)) {
    const int64_t rows = cu_seqlens.back();
    const int64_t sequences = static_cast<int64_t>(cu_seqlens.size()) - 1;
    x = RandomFloats(rows * channels, seed);
    dy = RandomFloats(sequences * channels, seed + 1);
    y.assign(sequences * channels, 99.0f);
    dx.assign(rows * channels, 99.0f);
    argmax.assign(sequences * channels, 99);
    args.kind = kind;
    args.layout = {sequences, rows, cu_seqlens.data()};
    args.x = {x.data(), rows, channels};
    args.y = {y.data(), sequences, channels};
    args.argmax = {argmax.data(), sequences, channels};
    args.dy = {dy.data(), sequences, channels};
    args.dx = {dx.data(), rows, channels};
  }
  Batch(const Batch&) = delete;

  std::vector<int64_t> cu_seqlens;
  std::vector<float> x, y, dy, dx;
  std::vector<int32_t> argmax;
  PoolArgs<float> args;
};

// What a row of one sequence and channel gives; rows [begin, end).
struct Pooled {
  float y = 0.0f;
  int32_t argmax = -1;
};

Pooled Reference(PoolKind kind, const Matrix<const float>& x, int64_t begin,
                 int64_t end, int64_t channel) {
  Pooled pooled;
  if (begin == end) return pooled;
  double sum = 0.0;
  pooled.argmax = static_cast<int32_t>(begin);
  for (int64_t row = begin; row < end; ++row) {
    const float value = x.row(row)[channel];
    sum += value;
    if (value > x.row(pooled.argmax)[channel]) pooled.argmax = row;
  }
  if (kind == PoolKind::kLast) pooled.y = x.row(end - 1)[channel];
  if (kind == PoolKind::kMean)
    pooled.y = static_cast<float>(sum / (end - begin));
  if (kind == PoolKind::kMax) pooled.y = x.row(pooled.argmax)[channel];
  return pooled;
}

TEST(PoolForward, MatchesADirectLoop) {
  ForEachInstructionSet([] {
    for (PoolKind kind : kKinds) {
      for (int64_t channels : {1, 17, 64, 65, 200}) {
        Batch batch(kind, RandomCuSeqlens(8, 30, channels), channels, 1);
        ASSERT_TRUE(PoolForward(batch.args).ok());
        for (int64_t b = 0; b < 8; ++b) {
          for (int64_t c = 0; c < channels; ++c) {
            const Pooled expected =
                Reference(kind, batch.args.x, batch.cu_seqlens[b],
                          batch.cu_seqlens[b + 1], c);
            ASSERT_EQ(batch.args.y.row(b)[c], expected.y);
            if (kind == PoolKind::kMax) {
              ASSERT_EQ(batch.args.argmax.row(b)[c], expected.argmax);
            }
          }
        }
      }
    }
  });
}

// y is linear in x where it does not jump from one row to another: the sum of
// dx * x over a sequence is dy * y.
TEST(PoolBackward, IsTheTransposeOfForward) {
  ForEachInstructionSet([] {
    for (PoolKind kind : kKinds) {
      for (int64_t channels : {1, 17, 64, 65, 200}) {
        Batch batch(kind, RandomCuSeqlens(8, 30, channels), channels, 2);
        ASSERT_TRUE(PoolForward(batch.args).ok());
        ASSERT_TRUE(PoolBackward(batch.args).ok());
        for (int64_t b = 0; b < 8; ++b) {
          for (int64_t c = 0; c < channels; ++c) {
            double sum = 0.0;
            for (int64_t row = batch.cu_seqlens[b];
                 row < batch.cu_seqlens[b + 1]; ++row) {
              sum += static_cast<double>(batch.args.dx.row(row)[c]) *
                     batch.args.x.row(row)[c];
            }
            ASSERT_NEAR(sum, batch.args.dy.row(b)[c] * batch.args.y.row(b)[c],
                        1e-6);
          }
        }
      }
    }
  });
}

TEST(PoolBackward, PutsEachGradientWhereItBelongs) {
  const std::vector<float> x = {1, 5, 2,  //
                                7, 7, 0};
  for (PoolKind kind : kKinds) {
    Batch batch(kind, {0, 3, 3, 6}, 1, 3);
    batch.x = x;
    batch.dy = {6, 100, 3};
    ASSERT_TRUE(PoolForward(batch.args).ok());
    ASSERT_TRUE(PoolBackward(batch.args).ok());
    switch (kind) {
      case PoolKind::kLast:
        EXPECT_EQ(batch.dx, std::vector<float>({0, 0, 6, 0, 0, 3}));
        break;
      case PoolKind::kMean:
        EXPECT_EQ(batch.dx, std::vector<float>({2, 2, 2, 1, 1, 1}));
        break;
      case PoolKind::kMax:  // the first of two equal rows
        EXPECT_EQ(batch.dx, std::vector<float>({0, 6, 0, 3, 0, 0}));
        break;
    }
  }
}

TEST(PoolForward, AZeroLengthSequenceGivesZeros) {
  for (PoolKind kind : kKinds) {
    Batch batch(kind, {0, 0, 2, 2}, 70, 4);
    ASSERT_TRUE(PoolForward(batch.args).ok());
    for (int64_t b : {0, 2}) {
      for (int64_t c = 0; c < 70; ++c) {
        EXPECT_EQ(batch.args.y.row(b)[c], 0.0f);
        if (kind == PoolKind::kMax) {
          EXPECT_EQ(batch.args.argmax.row(b)[c], -1);
        }
      }
    }
  }
}

TEST(PoolForward, MaxShowsTheFirstNaN) {
  ForEachInstructionSet([] {
    for (int32_t at : {0, 2, 3}) {
      Batch batch(PoolKind::kMax, {0, 5}, 33, 5);
      batch.x[at * 33 + 7] = NAN;
      batch.x[4 * 33 + 7] = NAN;
      ASSERT_TRUE(PoolForward(batch.args).ok());
      EXPECT_TRUE(std::isnan(batch.y[7]));
      EXPECT_EQ(batch.argmax[7], at);
      EXPECT_FALSE(std::isnan(batch.y[8]));
    }
  });
}

TEST(PoolForward, MaxNeedsNoArgmaxAtInference) {
  Batch with(PoolKind::kMax, {0, 4, 9}, 70, 6);
  Batch without(PoolKind::kMax, {0, 4, 9}, 70, 6);
  without.args.argmax = {};
  ASSERT_TRUE(PoolForward(with.args).ok());
  ASSERT_TRUE(PoolForward(without.args).ok());
  EXPECT_EQ(without.y, with.y);
}

// What pooling keeps of sequences that come in parts.
struct Carry {
  Carry(int64_t sequences, int64_t channels)
      : rows(sequences),
        sums(sequences * channels),
        maxima(sequences * channels),
        view{{rows.data(), sequences, 1},
             {sums.data(), sequences, channels},
             {maxima.data(), sequences, channels}} {}
  Carry(const Carry&) = delete;

  std::vector<int64_t> rows;
  std::vector<double> sums;
  std::vector<float> maxima;
  const PoolCarry view;
};

bool SameBits(const float* a, const float* b, int64_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

// Two sequences by turns, the second also in parts without rows.
TEST(PoolForward, PartsGiveTheBitsOfTheRowsSoFar) {
  ForEachInstructionSet([] {
    for (const PoolKind kind : {PoolKind::kMean, PoolKind::kMax}) {
      for (const int64_t channels : {1, 17, 200}) {
        Batch whole(kind, {0, 40, 80}, channels, 13);
        whole.args.argmax = {};
        for (int64_t i = 0; i < 3; ++i) whole.x[(11 + 30 * i) * channels] = NAN;
        Carry carry(2, channels);
        int64_t ends[2] = {};
        for (const int64_t rows : {0, 1, 3, 0, 20, 16}) {
          const int64_t lengths[2] = {rows, rows / 2};
          Batch part(kind, {0, lengths[0], lengths[0] + lengths[1]}, channels,
                     14);
          for (int64_t b = 0; b < 2; ++b) {
            std::copy_n(whole.args.x.row(40 * b + ends[b]),
                        lengths[b] * channels,
                        part.x.begin() + part.cu_seqlens[b] * channels);
            ends[b] += lengths[b];
          }
          part.args.argmax = {};
          part.args.carry = carry.view;
          ASSERT_TRUE(PoolForward(part.args).ok());
          for (int64_t b = 0; b < 2; ++b) {
            Batch so_far(kind, {0, ends[b]}, channels, 15);
            so_far.args.x = whole.args.x.row_range(40 * b, ends[b]);
            ASSERT_TRUE(PoolForward(so_far.args).ok());
            ASSERT_TRUE(
                SameBits(part.args.y.row(b), so_far.args.y.row(0), channels));
            ASSERT_EQ(carry.rows[b], ends[b]);
          }
        }
      }
    }
  });
}

TEST(PoolForward, PartsAreTheSameForAnyThreads) {
  for (const PoolKind kind : {PoolKind::kMean, PoolKind::kMax}) {
    ExpectSameForAnyThreads([=] {
      Carry carry(20, 150);
      std::vector<float> ys;
      for (const uint32_t seed : {16, 17}) {
        Batch part(kind, RandomCuSeqlens(20, 60, seed), 150, seed);
        part.args.argmax = {};
        part.args.carry = carry.view;
        EXPECT_TRUE(PoolForward(part.args).ok());
        ys.insert(ys.end(), part.y.begin(), part.y.end());
      }
      return ys;
    });
  }
}

TEST(PoolForward, SequencesDoNotDependOnTheirBatch) {
  for (PoolKind kind : kKinds) {
    Batch all(kind, {0, 4, 9, 20}, 70, 7);
    Batch one(kind, {0, 5}, 70, 8);
    one.args.x = all.args.x.row_range(4, 5);
    ASSERT_TRUE(PoolForward(all.args).ok());
    ASSERT_TRUE(PoolForward(one.args).ok());
    EXPECT_EQ(one.y, std::vector<float>(all.args.y.row(1), all.args.y.row(2)));
  }
}

TEST(Pool, IsTheSameForAnyThreads) {
  for (PoolKind kind : kKinds) {
    ExpectSameForAnyThreads([=] {
      Batch batch(kind, RandomCuSeqlens(20, 60, 9), 150, 9);
      EXPECT_TRUE(PoolForward(batch.args).ok());
      EXPECT_TRUE(PoolBackward(batch.args).ok());
      batch.dx.insert(batch.dx.end(), batch.y.begin(), batch.y.end());
      return batch.dx;
    });
  }
}

TEST(Pool, StaysInsideStridedRows) {
  for (PoolKind kind : kKinds) {
    Batch batch(kind, {0, 2, 5}, 10, 10);
    // The last two channels belong to someone else.
    batch.args.x.cols = batch.args.y.cols = batch.args.argmax.cols = 8;
    batch.args.dx.cols = batch.args.dy.cols = 8;
    ASSERT_TRUE(PoolForward(batch.args).ok());
    ASSERT_TRUE(PoolBackward(batch.args).ok());
    for (size_t i = 0; i < batch.y.size(); ++i) {
      EXPECT_EQ(batch.y[i] == 99.0f, i % 10 >= 8) << i;
    }
    for (size_t i = 0; i < batch.dx.size(); ++i) {
      EXPECT_EQ(batch.dx[i] == 99.0f, i % 10 >= 8) << i;
    }
  }
}

TEST(Pool, AcceptsAnEmptyBatch) {
  for (PoolKind kind : kKinds) {
    Batch batch(kind, {0}, 3, 11);
    EXPECT_TRUE(PoolForward(batch.args).ok());
    EXPECT_TRUE(PoolBackward(batch.args).ok());
  }
}

TEST(Pool, RefusesContradictions) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  Batch batch(PoolKind::kMax, {0, 2, 5}, 4, 12);
  batch.args.y.rows = 3;
  EXPECT_EQ(PoolForward(batch.args).code(), kInvalid);
  batch.args.y.rows = 2;
  batch.args.argmax.cols = 3;
  EXPECT_EQ(PoolForward(batch.args).code(), kInvalid);
  batch.args.argmax = {};  // backward cannot do without
  EXPECT_EQ(PoolBackward(batch.args).code(), kInvalid);
  batch.args.kind = PoolKind::kMean;
  batch.args.dx.rows = 4;
  EXPECT_EQ(PoolBackward(batch.args).code(), kInvalid);
}

}  // namespace
}  // namespace recurve::cpu
