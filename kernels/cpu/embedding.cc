#include "kernels/cpu/embedding.h"

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "kernels/args_check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/status.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/embedding.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
// clang-format would move this one above it.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace recurve::cpu {
namespace HWY_NAMESPACE {

void AddRows(const int32_t* tokens, Matrix<const float> dy,
             Matrix<float> dtable) {
  for (int64_t n = 0; n < dy.rows; ++n) {
    const float* from = dy.row(n);
    float* to = dtable.row(tokens[n]);
#pragma omp simd
    for (int64_t j = 0; j < dy.cols; ++j) to[j] += from[j];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace recurve::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace recurve::cpu {

HWY_EXPORT(AddRows);

namespace {

// A cache line of columns is the least that a thread takes.
constexpr int64_t kLineColumns = 16;

// Columns for each thread, in whole cache lines.
int64_t ColumnsPerPiece(int64_t cols) {
  const int64_t threads = omp_get_max_threads();
  const int64_t lines = (cols + kLineColumns - 1) / kLineColumns;
  return kLineColumns * ((lines + threads - 1) / threads);
}

}  // namespace

absl::Status EmbeddingForward(const EmbeddingForwardArgs<float>& args) {
  const Matrix<float>& y = args.y;
  RETURN_IF_ERROR(CheckEmbeddingForward(args));
  ParallelFor(y.rows, y.rows * y.cols, [&](int64_t n) {
    std::memcpy(y.row(n), args.table.row(args.tokens[n]),
                y.cols * sizeof(float));
  });
  return absl::OkStatus();
}

absl::Status EmbeddingBackward(const EmbeddingBackwardArgs<float>& args) {
  const Matrix<const float>& dy = args.dy;
  const Matrix<float>& dtable = args.dtable;
  RETURN_IF_ERROR(CheckEmbeddingBackward(args));
  if (dy.cols == 0) return absl::OkStatus();
  const auto add_rows = HWY_DYNAMIC_DISPATCH(AddRows);
  const int64_t width = ColumnsPerPiece(dy.cols);
  const int64_t zeroed_rows = args.accumulate ? 0 : dtable.rows;
  ParallelFor((dy.cols + width - 1) / width, (dy.rows + zeroed_rows) * dy.cols,
              [&](int64_t piece) {
                const int64_t begin = piece * width;
                const int64_t count = std::min(width, dy.cols - begin);
                const Matrix<float> slice = dtable.columns(begin, count);
                for (int64_t v = 0; v < zeroed_rows; ++v) {
                  std::fill(slice.row(v), slice.row(v) + count, 0.0f);
                }
                add_rows(args.tokens, dy.columns(begin, count), slice);
              });
  return absl::OkStatus();
}

}  // namespace recurve::cpu
#endif  // HWY_ONCE
