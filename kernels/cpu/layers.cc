#include "kernels/cpu/layers.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/column_sum.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/layer_norm.h"
#include "kernels/cpu/qrnn.h"
#include "kernels/cpu/row_mask.h"
#include "kernels/cpu/sru.h"
#include "kernels/cpu/window.h"
#include "kernels/layers/linear.h"
#include "kernels/layers/qrnn.h"
#include "kernels/layers/sru.h"
#include "kernels/precision.h"
#include "kernels/product.h"
#include "kernels/status.h"
#include "kernels/tensor.h"

namespace recurve::cpu {
namespace {

// The functions of this folder as the layers ask for them: none but a product
// can fail.
struct Parts {
  Precision products;

  absl::Status MatMul(const Factor<float>& a, const Factor<float>& b,
                      Matrix<float> c, Destination destination) {
    return cpu::MatMul(a, b, c, destination, products);
  }
  absl::Status MatMulWithBias(const Factor<float>& a, const Factor<float>& b,
                              const float* bias, Matrix<float> c) {
    return cpu::MatMulWithBias(a, b, bias, c, products);
  }
  absl::Status LayerNormForward(Matrix<const float> x, const float* weight,
                                const float* bias, Matrix<float> y,
                                Matrix<float> statistics) {
    cpu::LayerNormForward(x, weight, bias, y, statistics);
    return absl::OkStatus();
  }
  absl::Status LayerNormBackward(Matrix<const float> x,
                                 Matrix<const float> statistics,
                                 const float* weight, Matrix<const float> dy,
                                 Matrix<float> dx, Destination dx_destination,
                                 float* dweight, float* dbias) {
    cpu::LayerNormBackward(x, statistics, weight, dy, dx, dx_destination,
                           dweight, dbias);
    return absl::OkStatus();
  }
  absl::Status MultiplyBySequenceMask(const SequenceLayout& layout,
                                      Matrix<const float> x,
                                      Matrix<const float> mask, Matrix<float> y,
                                      Destination destination) {
    cpu::MultiplyBySequenceMask(layout, x, mask, y, destination);
    return absl::OkStatus();
  }
  absl::Status ColumnSums(Matrix<const float> m, float* sums,
                          Destination destination = Destination::kOverwrite) {
    cpu::ColumnSums(m, sums, destination);
    return absl::OkStatus();
  }
  absl::Status FillWindowRows(const SequenceLayout& layout,
                              Matrix<const float> x,
                              Matrix<const float> x_previous,
                              Matrix<float> window_rows) {
    cpu::FillWindowRows(layout, x, x_previous, window_rows);
    return absl::OkStatus();
  }
  absl::Status GatherWindowGradient(const SequenceLayout& layout,
                                    Matrix<const float> dwindow_rows,
                                    Matrix<float> dx) {
    cpu::GatherWindowGradient(layout, dwindow_rows, dx);
    return absl::OkStatus();
  }
  absl::Status StoreLastRows(const SequenceLayout& layout,
                             Matrix<const float> x,
                             Matrix<const float> x_previous,
                             Matrix<float> x_last) {
    cpu::StoreLastRows(layout, x, x_previous, x_last);
    return absl::OkStatus();
  }
  absl::Status SruRecurrence(const SruForwardArgs<float>& args,
                             Matrix<float> y) {
    cpu::SruRecurrence(args, y);
    return absl::OkStatus();
  }
  absl::Status SruFused(const SruForwardArgs<float>& args,
                        Matrix<const float> input, Matrix<float> y) {
    cpu::SruFused(args, input, y);
    return absl::OkStatus();
  }
  absl::Status QrnnFused(const QrnnForwardArgs<float>& args) {
    cpu::QrnnFused(args);
    return absl::OkStatus();
  }
  absl::Status SruRecurrenceBackward(const SruBackwardArgs<float>& args,
                                     Matrix<const float> dy) {
    cpu::SruRecurrenceBackward(args, dy);
    return absl::OkStatus();
  }
  absl::Status QrnnRecurrence(const QrnnForwardArgs<float>& args) {
    cpu::QrnnRecurrence(args);
    return absl::OkStatus();
  }
  absl::Status QrnnRecurrenceBackward(const QrnnBackwardArgs<float>& args) {
    cpu::QrnnRecurrenceBackward(args);
    return absl::OkStatus();
  }
};

// The one check that reads the layout's memory, which here is the host's.
absl::Status CheckRows(const char* operation, const SequenceLayout& layout) {
  if (layout.cu_seqlens == nullptr ||
      layout.cu_seqlens[layout.num_sequences] == layout.num_rows) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(operation, ": cu_seqlens ends at ",
                   layout.cu_seqlens[layout.num_sequences], " of ",
                   layout.num_rows, " rows"));
}

}  // namespace

absl::Status SruForward(const SruForwardArgs<float>& args, Precision products) {
  RETURN_IF_ERROR(CheckRows("SruForward", args.layout));
  Parts parts{products};
  return layers::SruForward(parts, args);
}

absl::Status SruBackward(const SruBackwardArgs<float>& args,
                         Precision products) {
  RETURN_IF_ERROR(CheckRows("SruBackward", args.forward.layout));
  Parts parts{products};
  return layers::SruBackward(parts, args);
}

absl::Status QrnnForward(const QrnnForwardArgs<float>& args,
                         Precision products) {
  RETURN_IF_ERROR(CheckRows("QrnnForward", args.layout));
  Parts parts{products};
  return layers::QrnnForward(parts, args);
}

absl::Status QrnnBackward(const QrnnBackwardArgs<float>& args,
                          Precision products) {
  RETURN_IF_ERROR(CheckRows("QrnnBackward", args.forward.layout));
  Parts parts{products};
  return layers::QrnnBackward(parts, args);
}

absl::Status LinearForward(const LinearForwardArgs<float>& args,
                           Precision products) {
  Parts parts{products};
  return layers::LinearForward(parts, args);
}

absl::Status LinearBackward(const LinearBackwardArgs<float>& args,
                            Precision products) {
  Parts parts{products};
  return layers::LinearBackward(parts, args);
}

}  // namespace recurve::cpu
