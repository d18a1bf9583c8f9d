#include "kernels/cpu/layer_norm.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cell_args.h"
#include "kernels/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/layer_norm.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace recurve::cpu {
namespace HWY_NAMESPACE {

// Sum over j of term(d, j): full vectors into one vector sum, then the tail.
template <typename F>
HWY_INLINE float SumOver(int64_t count, const F& term) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sums = hn::Zero(d);
  int64_t j = 0;
  for (; j + lanes <= count; j += lanes) sums = hn::Add(sums, term(d, j));
  float total = hn::GetLane(hn::SumOfLanes(d, sums));
  for (const hn::CappedTag<float, 1> one; j < count; ++j) {
    total += hn::GetLane(term(one, j));
  }
  return total;
}

void NormalizeRow(const float* x, int64_t count, const float* weight,
                  const float* bias, float* y, float* statistics) {
  const float mean =
      SumOver(count,
              [&](auto d, int64_t j) HWY_ATTR { return hn::LoadU(d, x + j); }) /
      count;
  // Squares of the centred values: no cancellation where the mean is large.
  const float variance = SumOver(count,
                                 [&](auto d, int64_t j) HWY_ATTR {
                                   const auto centred = hn::Sub(
                                       hn::LoadU(d, x + j), hn::Set(d, mean));
                                   return hn::Mul(centred, centred);
                                 }) /
                         count;
  const float scale = 1.0f / std::sqrt(variance + kLayerNormEpsilon);
  ForEachVector(count, [&](auto d, int64_t j) HWY_ATTR {
    const auto centred = hn::Sub(hn::LoadU(d, x + j), hn::Set(d, mean));
    const auto hat = hn::Mul(centred, hn::Set(d, scale));
    hn::StoreU(
        hn::MulAdd(hat, hn::LoadU(d, weight + j), hn::LoadU(d, bias + j)), d,
        y + j);
  });
  statistics[0] = mean;
  statistics[1] = scale;
}

//   dx^ = dy * weight
//   dx = inverse_stddev * (dx^ - mean(dx^) - x^ * mean(dx^ * x^))
void NormalizeRowGradient(const float* x, int64_t count, const float* weight,
                          const float* dy, const float* statistics, float* dx,
                          bool accumulate) {
  const float mean = statistics[0], scale = statistics[1];
  const auto hat = [=](auto d, int64_t j) HWY_ATTR {
    return hn::Mul(hn::Sub(hn::LoadU(d, x + j), hn::Set(d, mean)),
                   hn::Set(d, scale));
  };
  const auto dhat = [=](auto d, int64_t j) HWY_ATTR {
    return hn::Mul(hn::LoadU(d, dy + j), hn::LoadU(d, weight + j));
  };
  const float mean_dhat = SumOver(count, dhat) / count;
  const float mean_product =
      SumOver(count, [&](auto d, int64_t j)
                         HWY_ATTR { return hn::Mul(dhat(d, j), hat(d, j)); }) /
      count;
  ForEachVector(count, [&](auto d, int64_t j) HWY_ATTR {
    const auto centred = hn::Sub(dhat(d, j), hn::Set(d, mean_dhat));
    const auto inner =
        hn::NegMulAdd(hat(d, j), hn::Set(d, mean_product), centred);
    auto result = hn::Mul(hn::Set(d, scale), inner);
    if (accumulate) result = hn::Add(hn::LoadU(d, dx + j), result);
    hn::StoreU(result, d, dx + j);
  });
}

// dweight += dy * x^, dbias += dy, for one row.
void AddParameterGradients(const float* x, int64_t count, const float* dy,
                           const float* statistics, float* dweight,
                           float* dbias) {
  ForEachVector(count, [&](auto d, int64_t j) HWY_ATTR {
    const auto gradient = hn::LoadU(d, dy + j);
    const auto hat =
        hn::Mul(hn::Sub(hn::LoadU(d, x + j), hn::Set(d, statistics[0])),
                hn::Set(d, statistics[1]));
    hn::StoreU(hn::MulAdd(gradient, hat, hn::LoadU(d, dweight + j)), d,
               dweight + j);
    hn::StoreU(hn::Add(gradient, hn::LoadU(d, dbias + j)), d, dbias + j);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace recurve::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace recurve::cpu {
namespace {

HWY_EXPORT(NormalizeRow);
HWY_EXPORT(NormalizeRowGradient);
HWY_EXPORT(AddParameterGradients);

constexpr int64_t kColumns = 128;  // of one piece of the sums over rows

struct ParameterSums {
  float weight[kColumns] = {};
  float bias[kColumns] = {};
};

// The sums of one block of rows over columns [begin, begin + count).
ParameterSums SumRowBlock(Matrix<const float> x, Matrix<const float> dy,
                          Matrix<const float> statistics, int64_t first_row,
                          int64_t begin, int64_t count) {
  ParameterSums sums;
  const int64_t end_row = std::min(first_row + kRowBlock, x.rows);
  for (int64_t r = first_row; r < end_row; ++r) {
    HWY_DYNAMIC_DISPATCH(AddParameterGradients)
    (x.row(r) + begin, count, dy.row(r) + begin, statistics.row(r), sums.weight,
     sums.bias);
  }
  return sums;
}

void ParameterGradients(Matrix<const float> x, Matrix<const float> dy,
                        Matrix<const float> statistics, float* dweight,
                        float* dbias) {
  const int64_t pieces = (x.cols + kColumns - 1) / kColumns;
  ParallelFor(pieces, x.rows * x.cols, [&](int64_t piece) {
    const int64_t begin = piece * kColumns;
    const int64_t count = std::min(kColumns, x.cols - begin);
    ParameterSums total;
    for (int64_t row = 0; row < x.rows; row += kRowBlock) {
      const ParameterSums block =
          SumRowBlock(x, dy, statistics, row, begin, count);
      for (int64_t j = 0; j < count; ++j) {
        total.weight[j] += block.weight[j];
        total.bias[j] += block.bias[j];
      }
    }
    if (dweight) std::copy_n(total.weight, count, dweight + begin);
    if (dbias) std::copy_n(total.bias, count, dbias + begin);
  });
}

}  // namespace

void LayerNormForward(Matrix<const float> x, const float* weight,
                      const float* bias, Matrix<float> y,
                      Matrix<float> statistics) {
  ParallelFor(x.rows, x.rows * x.cols, [&](int64_t r) {
    float unsaved[2];
    HWY_DYNAMIC_DISPATCH(NormalizeRow)
    (x.row(r), x.cols, weight, bias, y.row(r),
     statistics ? statistics.row(r) : unsaved);
  });
}

void LayerNormBackward(Matrix<const float> x, Matrix<const float> statistics,
                       const float* weight, Matrix<const float> dy,
                       Matrix<float> dx, Destination dx_destination,
                       float* dweight, float* dbias) {
  // First: dx may overwrite dy.
  if (dweight || dbias) ParameterGradients(x, dy, statistics, dweight, dbias);
  if (!dx) return;
  ParallelFor(x.rows, x.rows * x.cols, [&](int64_t r) {
    HWY_DYNAMIC_DISPATCH(NormalizeRowGradient)
    (x.row(r), x.cols, weight, dy.row(r), statistics.row(r), dx.row(r),
     dx_destination == Destination::kAccumulate);
  });
}

}  // namespace recurve::cpu
#endif  // HWY_ONCE
