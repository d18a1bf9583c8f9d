// Checks the shapes of an operation's arguments, once a call; keeps the first
// contradiction. Costs no allocation while all is well, and reads nothing that
// is in a device's memory.
#ifndef RECURVE_KERNELS_SHAPE_CHECK_H_
#define RECURVE_KERNELS_SHAPE_CHECK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/product.h"
#include "kernels/tensor.h"

namespace recurve {

class ShapeCheck {
 public:
  // `operation` must outlive the check.
  explicit ShapeCheck(const char* operation) : operation_(operation) {}

  // m is rows x cols; an empty one may have no data.
  template <typename T>
  ShapeCheck& Required(const char* name, const Matrix<T>& m, int64_t rows,
                       int64_t cols) {
    if (rows == 0 || cols == 0) return *this;
    if (!m) return Fail(name, " is missing");
    return Optional(name, m, rows, cols);
  }

  // m is absent or rows x cols.
  template <typename T>
  ShapeCheck& Optional(const char* name, const Matrix<T>& m, int64_t rows,
                       int64_t cols) {
    if (!m || (m.rows == rows && m.cols == cols && m.stride >= cols)) {
      return *this;
    }
    return Fail(name, absl::StrCat(" is ", m.rows, " x ", m.cols, ", stride ",
                                   m.stride, "; expected ", rows, " x ", cols));
  }

  ShapeCheck& Required(const char* name, const void* pointer) {
    return pointer != nullptr ? *this : Fail(name, " is missing");
  }

  ShapeCheck& That(bool holds, const char* what) {
    return holds ? *this : Fail(what, " does not hold");
  }

  ShapeCheck& Layout(const SequenceLayout& layout) {
    That(layout.num_sequences >= 0 && layout.num_rows >= 0,
         "sizes of the layout not negative");
    if (layout.num_sequences == 0) {
      return That(layout.num_rows == 0, "no rows without sequences");
    }
    return Required("cu_seqlens", layout.cu_seqlens);
  }

  const absl::Status& status() const { return status_; }

 private:
  ShapeCheck& Fail(const char* name, const std::string& what) {
    if (status_.ok()) {
      status_ = absl::InvalidArgumentError(
          absl::StrCat(operation_, ": ", name, what));
    }
    return *this;
  }

  const char* operation_;
  absl::Status status_;
};

// Whether a product of a and b is rows x cols.
template <typename S>
absl::Status CheckProduct(const Factor<S>& a, const Factor<S>& b, int64_t rows,
                          int64_t cols) {
  if (a.rows() == rows && b.cols() == cols && a.cols() == b.rows()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("product of ", a.rows(), " x ", a.cols(), " and ", b.rows(),
                   " x ", b.cols(), " into ", rows, " x ", cols));
}

}  // namespace recurve

#endif  // RECURVE_KERNELS_SHAPE_CHECK_H_
