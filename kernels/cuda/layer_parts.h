// The kernels of this folder as the layers ask for them (kernels/layers/parts.h
// says what each does).
#ifndef RECURVE_KERNELS_CUDA_LAYER_PARTS_H_
#define RECURVE_KERNELS_CUDA_LAYER_PARTS_H_

#include "absl/status/status.h"
#include "kernels/cell_args.h"
#include "kernels/cuda/column_sum.h"
#include "kernels/cuda/layer_norm.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/qrnn.h"
#include "kernels/cuda/row_mask.h"
#include "kernels/cuda/sru.h"
#include "kernels/cuda/status.h"
#include "kernels/cuda/window.h"
#include "kernels/product.h"
#include "kernels/tensor.h"

namespace recurve::cuda {

// `products` belongs to the same stream.
template <typename S>
class LayerParts {
 public:
  LayerParts(Products& products, cudaStream_t stream)
      : products_(products), stream_(stream) {}

  template <typename Result>
  absl::Status MatMul(const Factor<S>& a, const Factor<S>& b, Matrix<Result> c,
                      Destination destination) {
    return products_.MatMul(a, b, c, destination);
  }
  absl::Status MatMulWithBias(const Factor<S>& a, const Factor<S>& b,
                              const float* bias, Matrix<S> c) {
    return products_.MatMulWithBias(a, b, bias, c);
  }

  absl::Status LayerNormForward(Matrix<const S> x, const float* weight,
                                const float* bias, Matrix<S> y,
                                Matrix<float> statistics) {
    return ToStatus(
        cuda::LayerNormForward(x, weight, bias, y, statistics, stream_),
        "LayerNormForward");
  }
  absl::Status LayerNormBackward(Matrix<const S> x,
                                 Matrix<const float> statistics,
                                 const float* weight, Matrix<const S> dy,
                                 Matrix<S> dx, Destination dx_destination,
                                 float* dweight, float* dbias) {
    return ToStatus(
        cuda::LayerNormBackward(x, statistics, weight, dy, dx, dx_destination,
                                dweight, dbias, stream_),
        "LayerNormBackward");
  }
  absl::Status MultiplyBySequenceMask(const SequenceLayout& layout,
                                      Matrix<const S> x,
                                      Matrix<const float> mask, Matrix<S> y,
                                      Destination destination) {
    return ToStatus(
        cuda::MultiplyBySequenceMask(layout, x, mask, y, destination, stream_),
        "MultiplyBySequenceMask");
  }
  template <typename T>
  absl::Status ColumnSums(Matrix<const T> m, float* sums,
                          Destination destination = Destination::kOverwrite) {
    return ToStatus(cuda::ColumnSums(m, sums, destination, stream_),
                    "ColumnSums");
  }
  absl::Status FillWindowRows(const SequenceLayout& layout, Matrix<const S> x,
                              Matrix<const float> x_previous,
                              Matrix<S> window_rows) {
    return ToStatus(
        cuda::FillWindowRows(layout, x, x_previous, window_rows, stream_),
        "FillWindowRows");
  }
  absl::Status GatherWindowGradient(const SequenceLayout& layout,
                                    Matrix<const S> dwindow_rows,
                                    Matrix<S> dx) {
    return ToStatus(
        cuda::GatherWindowGradient(layout, dwindow_rows, dx, stream_),
        "GatherWindowGradient");
  }
  absl::Status StoreLastRows(const SequenceLayout& layout, Matrix<const S> x,
                             Matrix<const float> x_previous,
                             Matrix<float> x_last) {
    return ToStatus(cuda::StoreLastRows(layout, x, x_previous, x_last, stream_),
                    "StoreLastRows");
  }

  absl::Status SruRecurrence(const SruForwardArgs<S>& args, Matrix<S> y) {
    return ToStatus(cuda::SruRecurrence(args, y, stream_), "SruRecurrence");
  }
  absl::Status SruRecurrenceBackward(const SruBackwardArgs<S>& args,
                                     Matrix<const S> dy) {
    return ToStatus(cuda::SruRecurrenceBackward(args, dy, stream_),
                    "SruRecurrenceBackward");
  }
  absl::Status QrnnRecurrence(const QrnnForwardArgs<S>& args) {
    return ToStatus(cuda::QrnnRecurrence(args, stream_), "QrnnRecurrence");
  }
  absl::Status QrnnRecurrenceBackward(const QrnnBackwardArgs<S>& args) {
    return ToStatus(cuda::QrnnRecurrenceBackward(args, stream_),
                    "QrnnRecurrenceBackward");
  }

 private:
  Products& products_;
  const cudaStream_t stream_;
};

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_LAYER_PARTS_H_
