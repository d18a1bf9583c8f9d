// Views of device memory. Everything is row-major, the last dimension
// contiguous; nothing here owns memory. All is constexpr: kernels use it too.
//
// Shape letters used in all headers of kernels/ and engine/:
//   T time steps, B sequences in a batch, N rows of a packed batch (the sum of
//   the lengths), I input size, H hidden size per direction, D directions (1 or
//   2), C = D*H channels, K gate groups of a projection, V vocabulary.
#ifndef RECURVE_KERNELS_TENSOR_H_
#define RECURVE_KERNELS_TENSOR_H_

#include <cstdint>
#include <type_traits>

namespace recurve {

// Alignment of device buffers and of views into an arena, in bytes.
inline constexpr int64_t kAlignment = 64;
// Rows in one block of a sum over rows; blocks are added in order
// (docs/determinism.md).
inline constexpr int64_t kRowBlock = 1024;

// A rows x cols matrix whose row r starts at data + r * stride. A null data
// pointer means "absent" wherever an argument is optional.
template <typename T>
struct Matrix {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  constexpr Matrix() = default;
  constexpr Matrix(T* data, int64_t rows, int64_t cols)
      : data(data), rows(rows), cols(cols), stride(cols) {}
  constexpr Matrix(T* data, int64_t rows, int64_t cols, int64_t stride)
      : data(data), rows(rows), cols(cols), stride(stride) {}
  // A matrix may be read where a matrix of constants is asked for.
  template <typename U, typename = std::enable_if_t<std::is_same_v<T, const U>>>
  constexpr Matrix(const Matrix<U>& m)
      : data(m.data), rows(m.rows), cols(m.cols), stride(m.stride) {}

  constexpr explicit operator bool() const { return data != nullptr; }
  constexpr T* row(int64_t r) const { return data + r * stride; }
  constexpr Matrix columns(int64_t begin, int64_t count) const {
    return {data + begin, rows, count, stride};
  }
  constexpr Matrix row_range(int64_t begin, int64_t count) const {
    return {data + begin * stride, count, cols, stride};
  }
};

// What an operation does to the matrix that it writes.
enum class Destination {
  kOverwrite,
  kAccumulate,
  // Its sums are those of earlier terms, and go on from there: where a sum has
  // an order that a backend promises, the terms are added as if they had come
  // together with the earlier ones.
  kContinue,
};

// A packed batch's cut into sequences: sequence b owns rows
// [cu_seqlens[b], cu_seqlens[b + 1]), time ascending. Zero-length sequences are
// allowed: their state passes through.
struct SequenceLayout {
  int64_t num_sequences = 0;            // B
  int64_t num_rows = 0;                 // N = cu_seqlens[B]
  const int64_t* cu_seqlens = nullptr;  // [B + 1], starts at 0, never descends
};

}  // namespace recurve

#endif  // RECURVE_KERNELS_TENSOR_H_
