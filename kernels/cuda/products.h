// Matrix products in device memory: by cuBLASLt on a GPU (products.cc), by
// plain loops in the emulation (emulation/products.cc).
//
// Sums are kept in float. A product's bits are a function of its arguments and
// of the kind of GPU: the algorithm is the library's choice for the shape, the
// types and the alignment, never one that splits a sum among blocks, and
// nothing is timed. What it chooses for may be a few more rows than there are
// (ProductKey), so that batches of nearly the same size are multiplied alike.
#ifndef RECURVE_KERNELS_CUDA_PRODUCTS_H_
#define RECURVE_KERNELS_CUDA_PRODUCTS_H_

#include <cstdint>
#include <memory>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/portable.h"
#include "kernels/cuda/settings.h"
#include "kernels/product.h"
#include "kernels/shape_check.h"
#include "kernels/status.h"
#include "kernels/storage.h"
#include "kernels/tensor.h"

namespace recurve::cuda {

enum class ElementType { kFloat, kBFloat16, kFloat16 };

template <typename S>
constexpr ElementType ElementTypeOf() {
  if (std::is_same_v<S, BFloat16>) return ElementType::kBFloat16;
  if (std::is_same_v<S, Float16>) return ElementType::kFloat16;
  return ElementType::kFloat;
}

// c = a b, + c if accumulate, + bias in every row if there is one. a and b are
// of one type, c of that or of float.
struct Product {
  struct Operand {
    const void* data = nullptr;
    int64_t stride = 0;  // between rows in memory, in elements
    bool transposed = false;
  };

  ElementType factors = ElementType::kFloat;
  ElementType result = ElementType::kFloat;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t depth = 0;  // terms of each sum
  Operand a;          // rows x depth
  Operand b;          // depth x cols
  void* c = nullptr;
  int64_t c_stride = 0;
  const float* bias = nullptr;  // [cols]; optional, only with a result of float
  bool accumulate = false;
};

// Does products one after the other on one stream. Used by one thread, with the
// stream's device current; goes before stream and workspace do.
class Products {
 public:
  virtual ~Products() = default;

  // c = a b or c += a b, with kContinue too. Any dimension may be 0; an empty
  // sum is 0. c must not overlap a or b.
  //
  // Errors: InvalidArgument if the shapes do not fit, Internal with the
  // library's words.
  template <typename S, typename Result>
  absl::Status MatMul(const Factor<S>& a, const Factor<S>& b, Matrix<Result> c,
                      Destination destination) {
    static_assert(std::is_same_v<Result, S> || std::is_same_v<Result, float>);
    RETURN_IF_ERROR(CheckProduct(a, b, c.rows, c.cols));
    Product product = ProductOf(a, b, c);
    product.accumulate = destination != Destination::kOverwrite;
    return Multiply(product);
  }

  // c = a b + bias, bias [c.cols] added to every row. For now of float alone:
  // cuBLASLt adds to 16 bits only a bias of the same 16 bits.
  absl::Status MatMulWithBias(const Factor<float>& a, const Factor<float>& b,
                              const float* bias, Matrix<float> c) {
    RETURN_IF_ERROR(CheckProduct(a, b, c.rows, c.cols));
    Product product = ProductOf(a, b, c);
    product.bias = bias;
    return Multiply(product);
  }

 protected:
  explicit Products(cudaStream_t stream) : stream_(stream) {}
  cudaStream_t stream() const { return stream_; }

 private:
  // No dimension of `product` is 0, and its bias starts at 16 bytes.
  virtual absl::Status MultiplyNonEmpty(const Product& product) = 0;

  template <typename S, typename Result>
  static Product ProductOf(const Factor<S>& a, const Factor<S>& b,
                           const Matrix<Result>& c) {
    Product product;
    product.factors = ElementTypeOf<S>();
    product.result = ElementTypeOf<Result>();
    product.rows = c.rows;
    product.cols = c.cols;
    product.depth = a.cols();
    product.a = {a.matrix.data, a.matrix.stride, a.transposed};
    product.b = {b.matrix.data, b.matrix.stride, b.transposed};
    product.c = c.data;
    product.c_stride = c.stride;
    return product;
  }

  absl::Status Multiply(const Product& product);
  // c of a product whose sums are empty.
  absl::Status FillWithoutTerms(const Product& product);
  // A product whose bias MultiplyNonEmpty does not take; slow for many rows.
  absl::Status AddToBias(const Product& product);

  const cudaStream_t stream_;
};

// `workspace`: device memory for the library's own use, kProductWorkspaceBytes.
absl::StatusOr<std::unique_ptr<Products>> CreateProducts(
    cudaStream_t stream, ProductPrecision precision, void* workspace);

inline constexpr int64_t kProductWorkspaceBytes = int64_t{32} << 20;

// What an algorithm is chosen for. Rows of the matrices that stand in memory
// row by row are as many as the batch has; they never decide how memory may be
// read, and are rounded up to a power of two.
struct ProductKey {
  ElementType factors = ElementType::kFloat;
  ElementType result = ElementType::kFloat;
  int64_t rows = 0, cols = 0, depth = 0;
  int64_t a_stride = 0, b_stride = 0, c_stride = 0;
  bool a_transposed = false, b_transposed = false;
  bool has_bias = false, accumulate = false;
  // The largest powers of two, at most 256, that divide the addresses. The
  // library looks at the bias's, too; 256 without one.
  int64_t a_alignment = 0, b_alignment = 0, c_alignment = 0, bias_alignment = 0;

  friend bool operator==(const ProductKey&, const ProductKey&) = default;
  friend auto operator<=>(const ProductKey&, const ProductKey&) = default;
};
ProductKey KeyOf(const Product& product);
// The same without rounding.
ProductKey ExactKeyOf(const Product& product);

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_PRODUCTS_H_
