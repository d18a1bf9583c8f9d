// A chunked scan for recurrences that are linear in the state: where few
// channels leave most of a chip idle, a block walks 32 of them with 16 warps,
// each of which holds a few consecutive steps in registers. A turn is
//
//   1. every warp turns its steps' inputs into maps state -> state and composes
//      them;
//   2. the warps exchange their maps, and each applies those before it, in
//      order, to the state at the turn's start;
//   3. every warp walks its steps as a serial walk does.
//
// Memory is read once, and the next turn's inputs are on their way meanwhile.
// The order of operations depends on the length alone.
#ifndef RECURVE_KERNELS_CUDA_LINEAR_SCAN_CUH_
#define RECURVE_KERNELS_CUDA_LINEAR_SCAN_CUH_

#include <cstdint>

#include "kernels/cuda/portable.h"
#include "kernels/cuda/recurrence.cuh"
#include "kernels/cuda/recurrence_plan.h"
#include "kernels/tensor.h"

namespace recurve::cuda {

// state -> state - drop * state + add. What is dropped, not what is kept: a
// nearly closed gate's drop is small and keeps its accuracy.
struct LinearMap {
  float drop = 0.0f;
  float add = 0.0f;

  __device__ float Apply(float state) const {
    return state + fmaf(-drop, state, add);
  }
  // This map, then `next`: 1 - drop is a product, which composes like a state.
  __device__ LinearMap Then(const LinearMap& next) const {
    return {drop + fmaf(-next.drop, drop, next.drop), next.Apply(add)};
  }
};

// A block's place in a scan. Lanes past the last channel take part in the
// barriers, but touch no memory.
struct ScanPlace {
  Walk walk;
  bool active = false;
  int warp = 0;
  int lane = 0;

  // Of the turn that begins at step `turn`, the first step of this warp.
  __device__ int Begin(int turn) const { return turn + warp * kScanSteps; }
  __device__ bool Has(int step) const { return active && step < walk.steps; }
  // Whether this thread ends up with the state after the last step.
  __device__ bool OwnsLastState() const {
    const int last = walk.steps > 0 ? (walk.steps - 1) / kScanSteps : 0;
    return active && last % kScanWarps == warp;
  }
};

__device__ inline ScanPlace FindScanPlace(const SequenceLayout& layout,
                                          int num_directions, int hidden_size,
                                          bool backward) {
  const int blocks = (hidden_size + 31) / 32;
  const int64_t index = blockIdx.x / blocks;
  ScanPlace place;
  place.warp = static_cast<int>(threadIdx.x) / 32;
  place.lane = static_cast<int>(threadIdx.x) % 32;
  const int unit = static_cast<int>(blockIdx.x % blocks) * 32 + place.lane;
  place.active = unit < hidden_size;
  place.walk = MakeWalk(layout, num_directions, hidden_size, index,
                        place.active ? unit : 0, backward);
  return place;
}

template <class Cell>
__device__ void LoadTurn(const Cell& cell, const ScanPlace& place, int turn,
                         typename Cell::Inputs (&inputs)[kScanSteps]) {
#pragma unroll
  for (int k = 0; k < kScanSteps; ++k) {
    const int step = place.Begin(turn) + k;
    if (place.Has(step)) inputs[k] = cell.Load(place.walk.Row(step));
  }
}

// The state at this warp's first step, given the state at the turn's start,
// which becomes the state at its end.
__device__ inline float CarryIn(const float2* maps, const ScanPlace& place,
                                float& turn_state) {
  float mine = turn_state;
#pragma unroll
  for (int warp = 0; warp < kScanWarps; ++warp) {
    const float2 map = maps[warp * 32 + place.lane];
    turn_state = LinearMap{map.x, map.y}.Apply(turn_state);
    if (warp + 1 == place.warp) mine = turn_state;
  }
  return mine;
}

// `state` is the walk's first one in every thread of a channel, and becomes the
// last one in the thread that owns it. All threads of the block must call.
template <class Cell>
__device__ void ScanLinearly(Cell& cell, const ScanPlace& place,
                             float2 (&maps)[2 * kScanThreads],
                             float (&state)[1]) {
  typename Cell::Inputs inputs[kScanSteps];
  typename Cell::Prepared prepared[kScanSteps];
  float turn_state = state[0];
  LoadTurn(cell, place, 0, inputs);
  constexpr int kTurn = kScanWarps * kScanSteps;
  float2* turn_maps = maps;
  for (int turn = 0; turn < place.walk.steps; turn += kTurn) {
    LinearMap map;
#pragma unroll
    for (int k = 0; k < kScanSteps; ++k) {
      const int step = place.Begin(turn) + k;
      if (!place.Has(step)) continue;
      cell.Prepare(inputs[k], place.walk.Row(step), prepared[k]);
      map = map.Then(cell.Map(prepared[k]));
    }
    LoadTurn(cell, place, turn + kTurn, inputs);
    turn_maps[threadIdx.x] = make_float2(map.drop, map.add);
    __syncthreads();
    float carry[1] = {CarryIn(turn_maps, place, turn_state)};
    // The other set of maps: nobody writes this one again before everyone is
    // past the next barrier, and so done with reading it.
    turn_maps = turn_maps == maps ? maps + kScanThreads : maps;
#pragma unroll
    for (int k = 0; k < kScanSteps; ++k) {
      const int step = place.Begin(turn) + k;
      if (place.Has(step)) {
        cell.Finish(prepared[k], place.walk.Row(step), carry);
      }
    }
    if (place.Has(place.Begin(turn))) state[0] = carry[0];
  }
}

// Adds up the warps' sums in order; the total is in the threads of warp 0. All
// threads of the block must call.
template <int kSums>
__device__ void SumOverWarps(const ScanPlace& place,
                             float (&shared)[kSums * kScanThreads],
                             float (&sums)[kSums][1]) {
#pragma unroll
  for (int n = 0; n < kSums; ++n) {
    shared[n * kScanThreads + threadIdx.x] = sums[n][0];
  }
  __syncthreads();
  if (place.warp != 0) return;
#pragma unroll
  for (int n = 0; n < kSums; ++n) {
    for (int warp = 1; warp < kScanWarps; ++warp) {
      sums[n][0] += shared[n * kScanThreads + warp * 32 + place.lane];
    }
  }
}

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_LINEAR_SCAN_CUH_
