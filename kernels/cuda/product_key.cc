// What the two implementations of Products share.
#include <algorithm>
#include <bit>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/products.h"
#include "kernels/cuda/status.h"

namespace recurve::cuda {
namespace {

// cuBLASLt's epilogues have faulted on biases at smaller boundaries.
constexpr int64_t kBiasAlignment = 16;

int64_t Alignment(const void* pointer) {
  constexpr uintptr_t kMost = 256;
  return int64_t{1} << std::countr_zero(reinterpret_cast<uintptr_t>(pointer) |
                                        kMost);
}

int64_t RoundUpRows(int64_t rows) {
  constexpr int64_t kFewest = 16;
  return std::max(kFewest, static_cast<int64_t>(
                               std::bit_ceil(static_cast<uint64_t>(rows))));
}

int64_t BytesOf(ElementType type) {
  return type == ElementType::kFloat ? 4 : 2;
}

}  // namespace

ProductKey ExactKeyOf(const Product& product) {
  ProductKey key;
  key.factors = product.factors;
  key.result = product.result;
  key.rows = product.rows;
  key.cols = product.cols;
  key.depth = product.depth;
  key.a_stride = product.a.stride;
  key.b_stride = product.b.stride;
  key.c_stride = product.c_stride;
  key.a_transposed = product.a.transposed;
  key.b_transposed = product.b.transposed;
  key.has_bias = product.bias != nullptr;
  key.accumulate = product.accumulate;
  key.a_alignment = Alignment(product.a.data);
  key.b_alignment = Alignment(product.b.data);
  key.c_alignment = Alignment(product.c);
  key.bias_alignment = Alignment(product.bias);
  return key;
}

ProductKey KeyOf(const Product& product) {
  ProductKey key = ExactKeyOf(product);
  if (!product.a.transposed) {
    key.rows = RoundUpRows(key.rows);
  } else if (!product.b.transposed) {
    key.depth = RoundUpRows(key.depth);  // the rows of both
  }
  return key;
}

absl::Status Products::Multiply(const Product& product) {
  if (product.rows == 0 || product.cols == 0) return absl::OkStatus();
  if (product.depth == 0) return FillWithoutTerms(product);
  if (Alignment(product.bias) < kBiasAlignment) return AddToBias(product);
  return MultiplyNonEmpty(product);
}

absl::Status Products::AddToBias(const Product& product) {
  RETURN_IF_ERROR(FillWithoutTerms(product));
  Product rest = product;
  rest.bias = nullptr;
  rest.accumulate = true;
  return MultiplyNonEmpty(rest);
}

absl::Status Products::FillWithoutTerms(const Product& product) {
  if (product.accumulate) return absl::OkStatus();
  const int64_t row_bytes = product.cols * BytesOf(product.result);
  const int64_t stride_bytes = product.c_stride * BytesOf(product.result);
  for (int64_t r = 0; r < product.rows; ++r) {
    char* row = static_cast<char*>(product.c) + r * stride_bytes;
    RETURN_IF_ERROR(
        product.bias == nullptr
            ? ToStatus(cudaMemsetAsync(row, 0, row_bytes, stream_),
                       "cudaMemsetAsync")
            : ToStatus(cudaMemcpyAsync(row, product.bias, row_bytes,
                                       cudaMemcpyDeviceToDevice, stream_),
                       "cudaMemcpyAsync"));
  }
  return absl::OkStatus();
}

}  // namespace recurve::cuda
