#include "kernels/cpu/gemm.h"

#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "kernels/backend.h"
#include "kernels/cpu/parallel.h"
#include "kernels/status.h"

namespace recurve::cpu {
namespace {

// The part of a factor that takes part in one block of the sum.
const float* SumBlock(const Factor& f, bool sum_over_rows, int64_t begin) {
  const bool along_stored_rows = sum_over_rows != f.transposed;
  return f.matrix.data + begin * (along_stored_rows ? f.matrix.stride : 1);
}

absl::Status MultiplyBlock(const Factor& a, const Factor& b, Matrix<float> c,
                           int64_t begin, int64_t count, float beta) {
  const dnnl_status_t status = dnnl_sgemm(
      a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', c.rows, c.cols, count,
      1.0f, SumBlock(a, /*sum_over_rows=*/false, begin), a.matrix.stride,
      SumBlock(b, /*sum_over_rows=*/true, begin), b.matrix.stride, beta, c.data,
      c.stride);
  if (status == dnnl_success) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("dnnl_sgemm failed with status ",
                                          status, " for ", c.rows, " x ",
                                          c.cols, " x ", count));
}

void FillRows(Matrix<float> c, const float* bias) {
  ParallelFor(c.rows, c.rows * c.cols, [&](int64_t r) {
    if (bias == nullptr) {
      std::fill_n(c.row(r), c.cols, 0.0f);
    } else {
      std::copy_n(bias, c.cols, c.row(r));
    }
  });
}

}  // namespace

absl::Status MatMul(const Factor& a, const Factor& b, Matrix<float> c,
                    Destination destination) {
  if (a.rows() != c.rows || b.cols() != c.cols || a.cols() != b.rows()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "product of ", a.rows(), " x ", a.cols(), " and ", b.rows(), " x ",
        b.cols(), " into ", c.rows, " x ", c.cols));
  }
  if (c.rows == 0 || c.cols == 0) return absl::OkStatus();
  const int64_t summed = a.cols();
  const bool overwrite = destination == Destination::kOverwrite;
  if (summed == 0 && overwrite) FillRows(c, nullptr);
  for (int64_t begin = 0; begin < summed; begin += kRowBlock) {
    const float beta = overwrite && begin == 0 ? 0.0f : 1.0f;
    RETURN_IF_ERROR(MultiplyBlock(a, b, c, begin,
                                  std::min(kRowBlock, summed - begin), beta));
  }
  return absl::OkStatus();
}

absl::Status MatMulWithBias(const Factor& a, const Factor& b, const float* bias,
                            Matrix<float> c) {
  FillRows(c, bias);
  return MatMul(a, b, c, Destination::kAccumulate);
}

}  // namespace recurve::cpu
