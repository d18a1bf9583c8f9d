// What the recurrences of both cells are made of. A walk goes along one
// sequence in one direction; a cell (sru.cu, qrnn.cu) is what one thread knows
// of kVec neighbouring channels of a walk:
//
//   Cell::Inputs                     one row's inputs as they are in memory
//   Inputs Load(int row)             reads them
//   void Step(inputs, row, state)    one step: the row's outputs, the new state
//
// and, where the new state is linear in the old one (linear_scan.cuh), Step is
//
//   Cell::Prepared                   what does not depend on the state
//   void Prepare(inputs, row, prepared)
//   void Finish(prepared, row, state)
//
// Rows are counted from the sequence's first one.
#ifndef RECURVE_KERNELS_CUDA_RECURRENCE_CUH_
#define RECURVE_KERNELS_CUDA_RECURRENCE_CUH_

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/portable.h"
#include "kernels/cuda/recurrence_plan.h"
#include "kernels/cuda/storage.cuh"
#include "kernels/tensor.h"

namespace recurve::cuda {

// Where a thread works.
struct Walk {
  int64_t sequence = 0;
  int64_t first_row = 0;  // of the sequence, in the packed batch
  int steps = 0;
  int direction = 0;
  int unit = 0;           // the thread's first one within the direction
  int channel = 0;        // direction * H + unit
  bool reversed = false;  // from the last row to the first

  __device__ int Row(int step) const {
    return reversed ? steps - 1 - step : step;
  }
};

// `walk` counts the directions of all sequences, sequence by sequence. A
// backward pass goes against the forward walk.
__device__ inline Walk MakeWalk(const SequenceLayout& layout,
                                int num_directions, int hidden_size,
                                int64_t walk, int unit, bool backward) {
  Walk w;
  w.sequence = walk / num_directions;
  w.direction = static_cast<int>(walk - w.sequence * num_directions);
  w.first_row = layout.cu_seqlens[w.sequence];
  w.steps = static_cast<int>(layout.cu_seqlens[w.sequence + 1] - w.first_row);
  w.unit = unit;
  w.channel = w.direction * hidden_size + unit;
  w.reversed = (w.direction == 1) != backward;
  return w;
}

// One column of a matrix from a walk's first row on. Rows are addressed by
// 32-bit numbers and byte strides (one instruction an access); the matrix as a
// whole may be larger.
template <typename T>
class Column {
 public:
  __device__ Column() : first_(nullptr), stride_bytes_(0) {}
  __device__ Column(const Matrix<T>& m, const Walk& walk, int64_t column)
      : first_(m ? m.row(walk.first_row) + column : nullptr),
        stride_bytes_(static_cast<int>(m.stride * int64_t{sizeof(T)})) {}

  __device__ explicit operator bool() const { return first_ != nullptr; }
  __device__ T* operator[](int row) const {
    using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
    return reinterpret_cast<T*>(reinterpret_cast<Byte*>(first_) +
                                int64_t{row} * stride_bytes_);
  }

 private:
  T* first_;
  int stride_bytes_;
};

// A thread's channels of a vector, or of a row of [B, C]; `missing` where it is
// absent.
template <int kVec>
__device__ void LoadChannels(const float* from, float (&to)[kVec],
                             float missing = 0.0f) {
  if (from == nullptr) {
#pragma unroll
    for (int i = 0; i < kVec; ++i) to[i] = missing;
    return;
  }
  const auto pack = Pack<float, kVec>::Load(from);
#pragma unroll
  for (int i = 0; i < kVec; ++i) to[i] = pack.Get(i);
}

template <typename S, int kVec>
__device__ void StoreChannels(const float (&from)[kVec], S* to) {
  Pack<S, kVec> pack;
#pragma unroll
  for (int i = 0; i < kVec; ++i) pack.Set(i, from[i]);
  pack.Store(to);
}

// The thread's channels in a [B, C] matrix; null if it is absent.
template <typename T>
__device__ T* StateOf(const Matrix<T>& m, const Walk& walk) {
  return m ? m.row(walk.sequence) + walk.channel : nullptr;
}

// The saved states of a walk, as a backward pass reads them: at each row, the
// state before it in the forward walk.
template <int kVec>
class StateBefore {
 public:
  __device__ StateBefore(const Matrix<float>& c,
                         const Matrix<const float>& c_first, const Walk& walk)
      : c_(c, walk, walk.channel),
        c_first_(StateOf(c_first, walk)),
        first_row_(walk.direction == 1 ? walk.steps - 1 : 0),
        to_before_(walk.direction == 1 ? 1 : -1) {}

  __device__ Pack<float, kVec> Load(int row) const {
    if (row != first_row_) return Pack<float, kVec>::Load(c_[row + to_before_]);
    return c_first_ ? Pack<float, kVec>::Load(c_first_)
                    : Pack<float, kVec>::Zeros();
  }

 private:
  Column<const float> c_;
  const float* c_first_;
  int first_row_;  // the forward walk's
  int to_before_;
};

// All steps of a walk, one after the other. The inputs of kDepth steps are on
// their way at any time: a slot is filled again as soon as it is read, before
// the step's own stores.
template <int kDepth, int kVec, class Cell>
__device__ void WalkSerially(Cell& cell, const Walk& walk,
                             float (&state)[kVec]) {
  typename Cell::Inputs slots[kDepth];
#pragma unroll
  for (int s = 0; s < kDepth; ++s) {
    if (s < walk.steps) slots[s] = cell.Load(walk.Row(s));
  }
  for (int first = 0; first < walk.steps; first += kDepth) {
#pragma unroll
    for (int s = 0; s < kDepth; ++s) {
      const int step = first + s;
      if (step >= walk.steps) break;
      const typename Cell::Inputs inputs = slots[s];
      if (step + kDepth < walk.steps) {
        slots[s] = cell.Load(walk.Row(step + kDepth));
      }
      cell.Step(inputs, walk.Row(step), state);
    }
  }
}

// Blocks of a launch: a serial one has H / vec threads for every walk, a scan a
// block for every 32 channels of every walk.
inline dim3 WalkGrid(const SequenceLayout& layout, int64_t num_directions,
                     int64_t hidden_size, const RecurrencePlan& plan) {
  const int64_t walks = layout.num_sequences * num_directions;
  if (plan.scan) {
    return dim3(static_cast<unsigned>(walks * ((hidden_size + 31) / 32)));
  }
  const int64_t threads = walks * (hidden_size / plan.vec);
  return dim3(static_cast<unsigned>((threads + plan.block - 1) / plan.block));
}

// The walk of this thread in a serial launch over B * D walks of H / kVec
// threads; false for threads past the end.
template <int kVec>
__device__ bool FindSerialWalk(const SequenceLayout& layout, int num_directions,
                               int hidden_size, bool backward, Walk& walk) {
  const int64_t thread =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int threads = hidden_size / kVec;
  const int64_t index = thread / threads;
  if (index >= layout.num_sequences * num_directions) return false;
  const int unit = static_cast<int>(thread - index * threads) * kVec;
  walk = MakeWalk(layout, num_directions, hidden_size, index, unit, backward);
  return true;
}

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_RECURRENCE_CUH_
