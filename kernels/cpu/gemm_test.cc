// The promises of gemm.h, swept over shapes and threads, and on every
// instruction set of this machine.
#include "kernels/cpu/gemm.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/cpu/test_util.h"

namespace recurve::cpu {
namespace {

constexpr int kMaxThreads = 4;

// One pool of random numbers serves every operand: shapes matter here, values
// do not, and drawing them anew for each case would take most of the time.
const std::vector<float>& Pool() {
  static const std::vector<float>* pool = [] {
    auto* values = new std::vector<float>(24'000'000);
    std::minstd_rand random(7);
    for (float& value : *values) {
      value = static_cast<float>(random() % 20001) * 1e-4f - 1.0f;
    }
    return values;
  }();
  return *pool;
}

Matrix<const float> Random(int64_t rows, int64_t cols, int64_t offset = 0) {
  return {Pool().data() + offset, rows, cols};
}

std::vector<float> Product(const Factor<float>& a, const Factor<float>& b,
                           int threads) {
  omp_set_num_threads(threads);
  std::vector<float> out(a.rows() * b.cols());
  EXPECT_TRUE(MatMul(a, b, {out.data(), a.rows(), b.cols()}).ok());
  return out;
}

bool SameBits(const float* a, const float* b, int64_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}

struct Case {
  int64_t rows, inner, cols;
};

std::string Describe(const Case& c, int threads) {
  return absl::StrCat(c.rows, " x ", c.inner, " x ", c.cols, " on ", threads,
                      " threads");
}

// Every size class once as a side, paired so that the whole sweep takes about a
// minute: all pairs of sides with few rows, narrow or unequal sides with many.
std::vector<Case> Sweep() {
  std::vector<Case> cases;
  const int64_t sides[] = {1,   2,   3,   7,   8,   15,  16,  17,
                           31,  32,  33,  48,  63,  64,  65,  96,
                           127, 128, 200, 256, 511, 512, 1024};
  const int64_t rows[] = {1, 2, 5, 16, 63, 64, 128, 1000, 2048, 4097, 20000};
  constexpr int64_t kMaxWork = 600'000'000;
  int index = 0;
  for (int64_t i : sides) {
    for (int64_t h : sides) {
      for (int64_t n : rows) {
        const bool narrow = n >= 2048 && (i <= 64 || h <= 64);
        if (n * i * h > kMaxWork) continue;
        if (index++ % (narrow ? 3 : 5) == 0) cases.push_back({n, i, h});
      }
    }
  }
  cases.push_back({20000, 64, 1024});
  cases.push_back({20000, 1024, 64});
  cases.push_back({2100, 1024, 1024});
  return cases;
}

TEST(GemmTest, RowsDoNotDependOnThreadsOrOtherRows) {
  int64_t failures = 0;
  for (const Case& c : Sweep()) {
    const Matrix<const float> x = Random(c.rows, c.inner);
    const Matrix<const float> w = Random(c.inner, c.cols, 101);
    const std::vector<float> whole = Product(x, w, 1);
    for (int threads = 2; threads <= kMaxThreads; ++threads) {
      const std::vector<float> other = Product(x, w, threads);
      if (!SameBits(whole.data(), other.data(), whole.size())) {
        ++failures;
        ADD_FAILURE() << "threads change bits: " << Describe(c, threads);
      }
    }
    // Some rows alone, starting anywhere, against the same rows in the batch.
    for (int64_t count : {1, 2, 7, 30, 65, 129, 500}) {
      if (count >= c.rows) break;
      const int64_t first = (c.rows - count) * 5 / 7;
      const int threads = 1 + static_cast<int>(count % 4);
      const std::vector<float> part =
          Product(x.row_range(first, count), w, threads);
      if (!SameBits(part.data(), whole.data() + first * c.cols, part.size())) {
        ++failures;
        ADD_FAILURE() << count
                      << " rows alone differ: " << Describe(c, threads);
      }
    }
    ASSERT_LT(failures, 40);
  }
}

TEST(GemmTest, InputGradientRowsDoNotDependOnThreadsOrOtherRows) {
  int64_t failures = 0;
  for (const Case& c : Sweep()) {
    const Matrix<const float> dy = Random(c.rows, c.inner);
    const Factor<float> w = Transposed(Random(c.cols, c.inner, 101));
    const std::vector<float> whole = Product(dy, w, 1);
    for (int threads = 2; threads <= kMaxThreads; ++threads) {
      const std::vector<float> other = Product(dy, w, threads);
      if (!SameBits(whole.data(), other.data(), whole.size())) {
        ++failures;
        ADD_FAILURE() << "threads change bits: " << Describe(c, threads);
      }
    }
    for (int64_t count : {1, 2, 7, 65, 500}) {
      if (count >= c.rows) break;
      const int64_t first = (c.rows - count) * 5 / 7;
      const std::vector<float> part = Product(dy.row_range(first, count), w, 1);
      if (!SameBits(part.data(), whole.data() + first * c.cols, part.size())) {
        ++failures;
        ADD_FAILURE() << count << " rows alone differ: " << Describe(c, 1);
      }
    }
    ASSERT_LT(failures, 40);
  }
}

TEST(GemmTest, WeightGradientsDoNotDependOnThreads) {
  int64_t failures = 0;
  for (const Case& c : Sweep()) {
    const Factor<float> x = Transposed(Random(c.rows, c.inner));
    const Matrix<const float> dy = Random(c.rows, c.cols, 101);
    const std::vector<float> one = Product(x, dy, 1);
    for (int threads = 2; threads <= kMaxThreads; ++threads) {
      const std::vector<float> other = Product(x, dy, threads);
      if (!SameBits(one.data(), other.data(), one.size())) {
        ++failures;
        ADD_FAILURE() << "threads change bits: " << Describe(c, threads);
      }
    }
    ASSERT_LT(failures, 40);
  }
}

// Every element of one product, in each of the four forms.
void CheckAgainstDouble(const Case& c) {
  for (int form = 0; form < 4; ++form) {
    const Factor<float> a = form & 1 ? Transposed(Random(c.inner, c.rows))
                                     : Factor<float>(Random(c.rows, c.inner));
    const Factor<float> b = form & 2
                                ? Transposed(Random(c.cols, c.inner, 55))
                                : Factor<float>(Random(c.inner, c.cols, 55));
    const std::vector<float> bias(c.cols, 0.5f);
    std::vector<float> out(c.rows * c.cols);
    ASSERT_TRUE(
        MatMulWithBias(a, b, bias.data(), {out.data(), c.rows, c.cols}).ok());
    for (int64_t r = 0; r < c.rows; ++r) {
      for (int64_t j = 0; j < c.cols; ++j) {
        double sum = 0.5, magnitude = 0.5;
        for (int64_t k = 0; k < c.inner; ++k) {
          const double term =
              double{*(form & 1 ? a.matrix.row(k) + r : a.matrix.row(r) + k)} *
              *(form & 2 ? b.matrix.row(j) + k : b.matrix.row(k) + j);
          sum += term;
          magnitude += std::abs(term);
        }
        // A float sum of n terms is off by at most n epsilon of the sum of
        // magnitudes; in practice by its square root.
        ASSERT_NEAR(out[r * c.cols + j], sum,
                    1e-7 * magnitude * std::sqrt(c.inner + 1.0))
            << Describe(c, 2) << " form " << form << " at " << r << ", " << j;
      }
    }
  }
}

TEST(GemmTest, AgreesWithDoublePrecisionOnEveryInstructionSet) {
  omp_set_num_threads(2);
  ForEachInstructionSet([&] {
    for (const Case& c : {Case{1, 1, 1}, Case{3, 7, 5}, Case{33, 1500, 17},
                          Case{8, 33, 48}, Case{31, 5, 101}, Case{64, 2049, 64},
                          Case{5, 0, 4}, Case{130, 70, 150}}) {
      CheckAgainstDouble(c);
    }
  });
}

TEST(GemmTest, RowsDoNotDependOnOtherRowsOnEveryInstructionSet) {
  omp_set_num_threads(1);
  const Matrix<const float> x = Random(100, 70);
  const Matrix<const float> w = Random(70, 101, 7);
  ForEachInstructionSet([&] {
    const std::vector<float> whole = Product(x, w, 1);
    for (int64_t row = 0; row < 100; ++row) {
      const std::vector<float> alone = Product(x.row_range(row, 1), w, 1);
      EXPECT_TRUE(SameBits(alone.data(), whole.data() + row * 101, 101));
    }
  });
}

// Sums that are taken a range of terms after the other, on other threads each
// time. The rows of c have room between them that nobody writes.
TEST(GemmTest, SumsOfABlockGoOnWhereverTheyWereLeft) {
  constexpr float kUnwritten = -77.0f;
  ForEachInstructionSet([&] {
    for (const Case& c : {Case{1, 9, 1}, Case{5, 40, 47}, Case{130, 1000, 60},
                          Case{33, 1024, 101}, Case{300, 77, 49}}) {
      for (int form = 0; form < 4; ++form) {
        const Matrix<const float> a =
            form & 1 ? Random(c.inner, c.rows) : Random(c.rows, c.inner);
        const Matrix<const float> b = form & 2 ? Random(c.cols, c.inner, 55)
                                               : Random(c.inner, c.cols, 55);
        // Terms [begin, begin + count).
        const auto left = [&](int64_t begin, int64_t count) {
          return form & 1 ? Transposed(a.row_range(begin, count))
                          : Factor<float>(a.columns(begin, count));
        };
        const auto right = [&](int64_t begin, int64_t count) {
          return form & 2 ? Transposed(b.columns(begin, count))
                          : Factor<float>(b.row_range(begin, count));
        };
        const std::vector<float> whole =
            Product(left(0, c.inner), right(0, c.inner), 1);
        const int64_t stride = c.cols + 3;
        std::vector<float> parts(c.rows * stride, kUnwritten);
        const Matrix<float> out(parts.data(), c.rows, c.cols, stride);
        int64_t begin = 0, count = 1;
        for (int call = 0; begin < c.inner; ++call) {
          omp_set_num_threads(1 + call % 3);
          ASSERT_TRUE(MatMul(left(begin, count), right(begin, count), out,
                             call == 0 ? Destination::kOverwrite
                                       : Destination::kContinue)
                          .ok());
          begin += count;
          count = std::min(2 * count + 3, c.inner - begin);
        }
        for (int64_t r = 0; r < c.rows; ++r) {
          ASSERT_TRUE(SameBits(out.row(r), whole.data() + r * c.cols, c.cols))
              << Describe(c, 1) << ", form " << form << ", row " << r;
          ASSERT_EQ(out.row(r)[c.cols], kUnwritten);
        }
      }
    }
  });
}

TEST(GemmTest, ShapesThatDoNotFitAreRefused) {
  std::vector<float> out(6);
  EXPECT_EQ(MatMul(Random(2, 3), Random(4, 3), {out.data(), 2, 3}).code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace recurve::cpu
