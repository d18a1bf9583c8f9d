// The factors of a matrix product.
#ifndef RECURVE_KERNELS_PRODUCT_H_
#define RECURVE_KERNELS_PRODUCT_H_

#include <cstdint>

#include "kernels/tensor.h"

namespace recurve {

// A factor of a product: a matrix, or its transpose (see Transposed).
template <typename S>
struct Factor {
  constexpr Factor(Matrix<const S> matrix) : matrix(matrix) {}  // NOLINT
  constexpr Factor(Matrix<S> matrix) : matrix(matrix) {}        // NOLINT
  constexpr int64_t rows() const {
    return transposed ? matrix.cols : matrix.rows;
  }
  constexpr int64_t cols() const {
    return transposed ? matrix.rows : matrix.cols;
  }

  Matrix<const S> matrix;
  bool transposed = false;
};

template <typename S>
constexpr Factor<S> Transposed(Matrix<const S> matrix) {
  Factor<S> factor(matrix);
  factor.transposed = true;
  return factor;
}

template <typename S>
constexpr Factor<S> Transposed(Matrix<S> matrix) {
  return Transposed(Matrix<const S>(matrix));
}

}  // namespace recurve

#endif  // RECURVE_KERNELS_PRODUCT_H_
