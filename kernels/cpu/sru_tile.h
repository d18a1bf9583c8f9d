// SRU's element-wise recurrence on a tile: consecutive rows of one sequence, a
// range of channels, with the state carried in and out. Walking a sequence tile
// by tile gives the same bits as walking it whole.
//
// All pointers are to the tile's first channel, those of rows to its first row.
// A walk goes through all rows, downwards if `reversed`. Gate groups of u stand
// `gate_stride` apart.
#ifndef RECURVE_KERNELS_CPU_SRU_TILE_H_
#define RECURVE_KERNELS_CPU_SRU_TILE_H_

#include <cstdint>

#include "kernels/cpu/rows.h"

namespace recurve::cpu {

// What forward and backward both read.
template <typename S>
struct SruTileInputs {
  int64_t rows = 0;
  bool reversed = false;
  int64_t count = 0;        // channels
  int64_t gate_stride = 0;  // between gate groups of u
  // Groups of the step coefficients v_f and v_r, or 0 if there are none.
  int64_t step_group = 0;
  bool use_tanh = false;
  Rows<const S> skip;  // raw input or gate group 3; absent without skip term
  float skip_scale = 1.0f;
  const float* v_f = nullptr;  // [count], as the next three
  const float* v_r = nullptr;
  const float* b_f = nullptr;
  const float* b_r = nullptr;
  const float* mask = nullptr;  // m_c, or absent
};

template <typename S>
struct SruForwardTile {
  SruTileInputs<S> in;
  Rows<const S> u;
  Rows<S> y;      // before any post-norm
  Rows<float> c;  // absent at inference
  float* state =
      nullptr;  // [count] c before the first row; out: after the last
};

template <typename S>
struct SruBackwardTile {
  SruTileInputs<S> in;  // reversed as in the forward pass
  Rows<S> u;            // overwritten by its gradient
  Rows<const float> c;
  // c before the tile's first row in the forward walk; absent = zeros.
  const float* c_first = nullptr;
  Rows<const S> dy;
  // Gradient of the raw input, overwritten; absent = not wanted, or gate group
  // 3 of u takes it.
  Rows<S> dskip;
  float* state = nullptr;  // [count] gradient of c after the last row; out:
                           // before the first
  // Sums over rows, added to: [count] each.
  float* dv_f = nullptr;
  float* dv_r = nullptr;
  float* db_f = nullptr;
  float* db_r = nullptr;
};

void RunSruTile(const SruForwardTile<float>& tile);
void RunSruTile(const SruBackwardTile<float>& tile);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_SRU_TILE_H_
