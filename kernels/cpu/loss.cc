#include "kernels/cpu/loss.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "kernels/args_check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/status.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/loss.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
// clang-format would move these above it.
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"
#include "kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace recurve::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// hn::Exp does not take a NaN.
HWY_INLINE VF ExpOrNaN(VF x) {
  const auto is_nan = hn::IsNaN(x);
  return hn::IfThenElse(is_nan, x,
                        hn::Exp(DF(), hn::IfThenZeroElse(is_nan, x)));
}

HWY_INLINE float MaxOf(const float* row, int64_t cols) {
  const DF d;
  VF max = hn::Set(d, -kInfinity);
  for (int64_t j = 0; j < cols; j += kVectorLanes) {
    max = hn::Max(max, LoadPart(row + j, cols - j, -kInfinity));
  }
  return hn::GetLane(hn::MaxOfLanes(d, max));
}

// The sum of exp(x - max) over a row, and the terms in the row's place if they
// are wanted.
HWY_INLINE double ExpSum(float* row, int64_t cols, float max, bool store) {
  return FixedOrderSum(cols, [&](int64_t j, int64_t count) HWY_ATTR {
    const VF x = LoadPart(row + j, count, -kInfinity);
    const VF e = ExpOrNaN(hn::Sub(x, hn::Set(DF(), max)));
    if (store) StorePart(e, count, row + j);
    return e;
  });
}

void Scale(float* row, int64_t cols, float factor) {
#pragma omp simd
  for (int64_t j = 0; j < cols; ++j) row[j] *= factor;
}

// The target is taken out of the row and its term added last: a loss near 0 is
// the logarithm of 1 + (a small sum of the others), and keeps its digits.
float CrossEntropyRow(float* row, int64_t cols, int64_t target, float weight,
                      bool want_gradient) {
  const float x_target = row[target];
  row[target] = -kInfinity;
  const float max = std::max(x_target, MaxOf(row, cols));
  const double others = ExpSum(row, cols, max, want_gradient);
  const double margin = static_cast<double>(max) - x_target;
  const double sum = others + std::exp(-margin);
  const double loss =
      margin == 0.0 ? std::log1p(others) : margin + std::log(sum);
  if (want_gradient) {
    Scale(row, cols, static_cast<float>(weight / sum));
    row[target] = static_cast<float>(-weight * (others / sum));
  } else {
    row[target] = x_target;
  }
  return static_cast<float>(weight * loss);
}

void SoftmaxRow(float* row, int64_t cols) {
  const float max = MaxOf(row, cols);
  const double sum = ExpSum(row, cols, max, /*store=*/true);
  Scale(row, cols, static_cast<float>(1.0 / sum));
}

float SquaredErrorRow(float* predictions, const float* targets, int64_t cols,
                      float weight, bool want_gradient) {
  const VF factor = hn::Set(DF(), 2.0f * weight / static_cast<float>(cols));
  const double sum =
      FixedOrderSum(cols, [&](int64_t j, int64_t count) HWY_ATTR {
        const VF error = hn::Sub(LoadPart(predictions + j, count, 0.0f),
                                 LoadPart(targets + j, count, 0.0f));
        if (want_gradient) {
          StorePart(hn::Mul(factor, error), count, predictions + j);
        }
        return hn::Mul(error, error);
      });
  return static_cast<float>(weight * (sum / static_cast<double>(cols)));
}

}  // namespace HWY_NAMESPACE
}  // namespace recurve::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace recurve::cpu {

HWY_EXPORT(CrossEntropyRow);
HWY_EXPORT(SoftmaxRow);
HWY_EXPORT(SquaredErrorRow);

absl::Status CrossEntropy(const CrossEntropyArgs<float>& args) {
  const Matrix<float>& logits = args.logits;
  RETURN_IF_ERROR(CheckCrossEntropy(args));
  const auto row_loss = HWY_DYNAMIC_DISPATCH(CrossEntropyRow);
  ParallelFor(logits.rows, logits.rows * logits.cols, [&](int64_t r) {
    float* row = logits.row(r);
    if (args.targets[r] == args.ignore_index) {
      args.row_losses[r] = 0.0f;
      if (args.want_gradient) std::fill(row, row + logits.cols, 0.0f);
      return;
    }
    const float weight = args.weights == nullptr ? 1.0f : args.weights[r];
    args.row_losses[r] =
        row_loss(row, logits.cols, args.targets[r], weight, args.want_gradient);
  });
  return absl::OkStatus();
}

absl::Status SquaredError(const SquaredErrorArgs<float>& args) {
  const Matrix<float>& predictions = args.predictions;
  RETURN_IF_ERROR(CheckSquaredError(args));
  const auto row_loss = HWY_DYNAMIC_DISPATCH(SquaredErrorRow);
  ParallelFor(
      predictions.rows, predictions.rows * predictions.cols, [&](int64_t r) {
        const float weight = args.weights == nullptr ? 1.0f : args.weights[r];
        args.row_losses[r] =
            row_loss(predictions.row(r), args.targets.row(r), predictions.cols,
                     weight, args.want_gradient);
      });
  return absl::OkStatus();
}

absl::Status Softmax(Matrix<float> logits) {
  if (logits.cols == 0) return absl::OkStatus();
  const auto softmax_row = HWY_DYNAMIC_DISPATCH(SoftmaxRow);
  ParallelFor(logits.rows, logits.rows * logits.cols,
              [&](int64_t r) { softmax_row(logits.row(r), logits.cols); });
  return absl::OkStatus();
}

}  // namespace recurve::cpu
#endif  // HWY_ONCE
