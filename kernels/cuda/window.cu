#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/storage.cuh"
#include "kernels/cuda/window.h"

namespace recurve::cuda {
namespace {

// The row whose copy stands beside row r of sequence b in `direction`, or -1.
__device__ inline int64_t NeighbourRow(const SequenceLayout& layout, int64_t b,
                                       int64_t r, int64_t direction) {
  if (direction == 0) return r > layout.cu_seqlens[b] ? r - 1 : -1;
  return r + 1 < layout.cu_seqlens[b + 1] ? r + 1 : -1;
}

// The row beside which row r's copy stands in `direction`, or -1.
__device__ inline int64_t HostRow(const SequenceLayout& layout, int64_t b,
                                  int64_t r, int64_t direction) {
  return NeighbourRow(layout, b, r, 1 - direction);
}

// kPart elements of a row, zeros if it is absent.
template <bool kAligned, int kPart, typename T>
__device__ inline void LoadOrZero(const T* row, int64_t j, int64_t cols,
                                  float (&values)[kPart]) {
  if (row != nullptr) {
    LoadPart<kAligned>(row + j, cols - j, 0.0f, values);
    return;
  }
#pragma unroll
  for (int i = 0; i < kPart; ++i) values[i] = 0.0f;
}

template <typename S>
struct FillWindowRowsParameters {
  SequenceLayout layout;
  Matrix<const S> x;
  Matrix<const float> x_previous;
  Matrix<S> window_rows;
  int64_t directions;
};

template <typename S, bool kAligned>
__global__ void __launch_bounds__(kBlockThreads)
    FillWindowRowsKernel(const FillWindowRowsParameters<S> p) {
  constexpr int kPart = kWideVec<S>;
  const int64_t cols = p.x.cols;
  for (int64_t r = FirstRow(); r < p.x.rows; r += RowStep()) {
    const int64_t b = SequenceOfRow(p.layout, r);
    for (int64_t d = 0; d < p.directions; ++d) {
      S* to = p.window_rows.row(r) + d * 2 * cols;
      const int64_t neighbour = NeighbourRow(p.layout, b, r, d);
      const S* beside = neighbour < 0 ? nullptr : p.x.row(neighbour);
      const float* before = neighbour < 0 && d == 0 && p.x_previous
                                ? p.x_previous.row(b)
                                : nullptr;
      ForEachPart<S>(cols, [&](int64_t j) {
        float own[kPart], other[kPart];
        LoadPart<kAligned>(p.x.row(r) + j, cols - j, 0.0f, own);
        StorePart<kAligned>(own, cols - j, to + j);
        if (before != nullptr) {
          LoadPart<kAligned>(before + j, cols - j, 0.0f, other);
        } else {
          LoadOrZero<kAligned>(beside, j, cols, other);
        }
        StorePart<kAligned>(other, cols - j, to + cols + j);
      });
    }
  }
}

template <typename S>
struct GatherWindowGradientParameters {
  SequenceLayout layout;
  Matrix<const S> dwindow_rows;
  Matrix<S> dx;
  int64_t directions;
};

template <typename S, bool kAligned>
__global__ void __launch_bounds__(kBlockThreads)
    GatherWindowGradientKernel(const GatherWindowGradientParameters<S> p) {
  constexpr int kPart = kWideVec<S>;
  const int64_t cols = p.dx.cols;
  for (int64_t r = FirstRow(); r < p.dx.rows; r += RowStep()) {
    const int64_t b = SequenceOfRow(p.layout, r);
    ForEachPart<S>(cols, [&](int64_t j) {
      float sums[kPart] = {};
      for (int64_t d = 0; d < p.directions; ++d) {
        const int64_t column = d * 2 * cols;
        const int64_t host = HostRow(p.layout, b, r, d);
        float own[kPart], copy[kPart];
        LoadPart<kAligned>(p.dwindow_rows.row(r) + column + j, cols - j, 0.0f,
                           own);
        const S* of_host =
            host < 0 ? nullptr : p.dwindow_rows.row(host) + column + cols;
        LoadOrZero<kAligned>(of_host, j, cols, copy);
#pragma unroll
        for (int i = 0; i < kPart; ++i) sums[i] = sums[i] + own[i] + copy[i];
      }
      StorePart<kAligned>(sums, cols - j, p.dx.row(r) + j);
    });
  }
}

template <typename S>
struct StoreLastRowsParameters {
  SequenceLayout layout;
  Matrix<const S> x;
  Matrix<const float> x_previous;
  Matrix<float> x_last;
};

template <typename S, bool kAligned>
__global__ void __launch_bounds__(kBlockThreads)
    StoreLastRowsKernel(const StoreLastRowsParameters<S> p) {
  constexpr int kPart = kWideVec<S>;
  const int64_t cols = p.x_last.cols;
  for (int64_t b = FirstRow(); b < p.layout.num_sequences; b += RowStep()) {
    const int64_t end = p.layout.cu_seqlens[b + 1];
    const bool empty = p.layout.cu_seqlens[b] == end;
    const float* before = empty && p.x_previous ? p.x_previous.row(b) : nullptr;
    const S* last = empty ? nullptr : p.x.row(end - 1);
    ForEachPart<S>(cols, [&](int64_t j) {
      float values[kPart];
      if (before != nullptr) {
        LoadPart<kAligned>(before + j, cols - j, 0.0f, values);
      } else {
        LoadOrZero<kAligned>(last, j, cols, values);
      }
      StorePart<kAligned>(values, cols - j, p.x_last.row(b) + j);
    });
  }
}

}  // namespace

// --- Launchers ---

namespace {

// Of a window matrix beside one of `cols` columns. No columns: nothing to do.
int64_t Directions(int64_t window_cols, int64_t cols) {
  return cols == 0 ? 1 : window_cols / (2 * cols);
}

}  // namespace

template <typename S>
cudaError_t FillWindowRows(const SequenceLayout& layout, Matrix<const S> x,
                           Matrix<const float> x_previous,
                           Matrix<S> window_rows, cudaStream_t stream) {
  const bool wide = IsWide(x) && IsWide(x_previous) && IsWide(window_rows) &&
                    x.cols % kWideVec<S> == 0;
  return LaunchRows<FillWindowRowsKernel<S, true>,
                    FillWindowRowsKernel<S, false>>(
      wide, x.rows, stream,
      FillWindowRowsParameters<S>{layout, x, x_previous, window_rows,
                                  Directions(window_rows.cols, x.cols)});
}

template <typename S>
cudaError_t GatherWindowGradient(const SequenceLayout& layout,
                                 Matrix<const S> dwindow_rows, Matrix<S> dx,
                                 cudaStream_t stream) {
  const bool wide =
      IsWide(dwindow_rows) && IsWide(dx) && dx.cols % kWideVec<S> == 0;
  return LaunchRows<GatherWindowGradientKernel<S, true>,
                    GatherWindowGradientKernel<S, false>>(
      wide, dx.rows, stream,
      GatherWindowGradientParameters<S>{
          layout, dwindow_rows, dx, Directions(dwindow_rows.cols, dx.cols)});
}

template <typename S>
cudaError_t StoreLastRows(const SequenceLayout& layout, Matrix<const S> x,
                          Matrix<const float> x_previous, Matrix<float> x_last,
                          cudaStream_t stream) {
  const bool wide = IsWide(x) && IsWide(x_previous) && IsWide(x_last);
  return LaunchRows<StoreLastRowsKernel<S, true>,
                    StoreLastRowsKernel<S, false>>(
      wide, layout.num_sequences, stream,
      StoreLastRowsParameters<S>{layout, x, x_previous, x_last});
}

#define RECURVE_INSTANTIATE(S)                                                \
  template cudaError_t FillWindowRows(const SequenceLayout&, Matrix<const S>, \
                                      Matrix<const float>, Matrix<S>,         \
                                      cudaStream_t);                          \
  template cudaError_t GatherWindowGradient(                                  \
      const SequenceLayout&, Matrix<const S>, Matrix<S>, cudaStream_t);       \
  template cudaError_t StoreLastRows(const SequenceLayout&, Matrix<const S>,  \
                                     Matrix<const float>, Matrix<float>,      \
                                     cudaStream_t)
RECURVE_INSTANTIATE(float);
RECURVE_INSTANTIATE(BFloat16);
RECURVE_INSTANTIATE(Float16);
#undef RECURVE_INSTANTIATE

}  // namespace recurve::cuda
