// Products as plain loops, in the order of their stream. Sums run over
// ascending terms; factors of float are rounded as the precision asks for.
#include "kernels/cuda/products.h"

#include <bit>
#include <cstdint>
#include <memory>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/status.h"
#include "kernels/cuda/storage.cuh"

namespace recurve::cuda {
namespace {

// Bits of a float's mantissa that multiplications leave out.
int DroppedBits(ProductPrecision precision) {
  switch (precision) {
    case ProductPrecision::kFp32:
      return 0;
    case ProductPrecision::kTf32:
    case ProductPrecision::kFp16:  // its exponent is not modelled
      return 13;
    case ProductPrecision::kBf16:
      return 16;
  }
  return 0;
}

// Columns that one thread adds up side by side.
constexpr int64_t kColumns = 64;

struct ProductParameters {
  Product product;
  int dropped_bits = 0;
};

// To nearest, ties to even.
float Round(float x, int dropped_bits) {
  if (dropped_bits == 0) return x;
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t odd = bits >> dropped_bits & 1;
  const uint32_t half = (1u << (dropped_bits - 1)) - 1 + odd;
  return std::bit_cast<float>((bits + half) >> dropped_bits << dropped_bits);
}

template <typename S>
float Load(const Product::Operand& operand, int64_t row, int64_t col,
           int dropped_bits) {
  const int64_t at = operand.transposed ? col * operand.stride + row
                                        : row * operand.stride + col;
  const float value = ToFloat(static_cast<const S*>(operand.data)[at]);
  return std::is_same_v<S, float> ? Round(value, dropped_bits) : value;
}

// One row of c by kColumns of its columns.
template <typename S, typename Result>
__global__ void ProductKernel(const ProductParameters p) {
  const Product& product = p.product;
  const int64_t row = blockIdx.y * int64_t{blockDim.y} + threadIdx.y;
  const int64_t begin = blockIdx.x * kColumns;
  if (row >= product.rows) return;
  const int64_t left = product.cols - begin;
  const int64_t count = left < kColumns ? left : kColumns;
  float sums[kColumns] = {};
  for (int64_t k = 0; k < product.depth; ++k) {
    const float a = Load<S>(product.a, row, k, p.dropped_bits);
    for (int64_t j = 0; j < count; ++j) {
      sums[j] += a * Load<S>(product.b, k, begin + j, p.dropped_bits);
    }
  }
  Result* c = static_cast<Result*>(product.c) + row * product.c_stride + begin;
  for (int64_t j = 0; j < count; ++j) {
    float value = sums[j];
    if (product.accumulate) value += ToFloat(c[j]);
    if (product.bias != nullptr) value += product.bias[begin + j];
    c[j] = FromFloat<Result>(value);
  }
}

template <typename S, typename Result>
cudaError_t LaunchProduct(const ProductParameters& parameters,
                          cudaStream_t stream) {
  constexpr int kRows = 64;
  const Product& product = parameters.product;
  const auto blocks = [](int64_t count, int64_t size) {
    return static_cast<unsigned>((count + size - 1) / size);
  };
  return Launch<ProductKernel<S, Result>>(
      dim3(blocks(product.cols, kColumns), blocks(product.rows, kRows)),
      dim3(1, kRows), stream, parameters);
}

template <typename S>
cudaError_t LaunchProductOf(const ProductParameters& parameters,
                            cudaStream_t stream) {
  return parameters.product.result == ElementType::kFloat
             ? LaunchProduct<S, float>(parameters, stream)
             : LaunchProduct<S, S>(parameters, stream);
}

class EmulatedProducts : public Products {
 public:
  EmulatedProducts(cudaStream_t stream, ProductPrecision precision)
      : Products(stream), dropped_bits_(DroppedBits(precision)) {}

 private:
  absl::Status MultiplyNonEmpty(const Product& product) override {
    return ToStatus(Start({product, dropped_bits_}), "product");
  }

  cudaError_t Start(const ProductParameters& parameters) {
    switch (parameters.product.factors) {
      case ElementType::kFloat:
        return LaunchProductOf<float>(parameters, stream());
      case ElementType::kBFloat16:
        return LaunchProductOf<BFloat16>(parameters, stream());
      case ElementType::kFloat16:
        return LaunchProductOf<Float16>(parameters, stream());
    }
    return cudaErrorInvalidValue;
  }

  const int dropped_bits_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Products>> CreateProducts(
    cudaStream_t stream, ProductPrecision precision, void* /*workspace*/) {
  return std::make_unique<EmulatedProducts>(stream, precision);
}

}  // namespace recurve::cuda
