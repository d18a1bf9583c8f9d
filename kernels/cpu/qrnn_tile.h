// QRNN's element-wise recurrence on a tile: consecutive rows of one sequence, a
// range of channels, with the state carried in and out. Walking a sequence tile
// by tile gives the same bits as walking it whole.
//
// All pointers are to the tile's first channel, those of rows to its first row.
// A walk goes through all rows, downwards if `reversed`. Gate groups
// (z, i, o) of u stand `gate_stride` apart, their biases and bias gradients
// `bias_stride`.
#ifndef RECURVE_KERNELS_CPU_QRNN_TILE_H_
#define RECURVE_KERNELS_CPU_QRNN_TILE_H_

#include <cstdint>

#include "kernels/cpu/rows.h"

namespace recurve::cpu {

// What forward and backward both read.
struct QrnnTileInputs {
  int64_t rows = 0;
  bool reversed = false;
  int64_t count = 0;  // channels
  int64_t gate_stride = 0;
  int64_t bias_stride = 0;
  bool output_gate = true;
  const float* bias = nullptr;     // z's [count]; i's and o's follow by stride
  Rows<const float> zoneout_mask;  // multiplies i; absent = i times i_scale
  float i_scale = 1.0f;
};

template <typename S>
struct QrnnForwardTile {
  QrnnTileInputs in;
  Rows<const S> u;
  Rows<S> y;
  Rows<float> c;  // absent at inference
  float* state =
      nullptr;  // [count] c before the first row; out: after the last
};

template <typename S>
struct QrnnBackwardTile {
  QrnnTileInputs in;  // reversed as in the forward pass
  Rows<S> u;          // overwritten by its gradient
  Rows<const float> c;
  // c before the tile's first row in the forward walk; absent = zeros.
  const float* c_first = nullptr;
  Rows<const S> dy;
  float* state = nullptr;  // [count] gradient of c after the last row; out:
                           // before the first
  float* dbias = nullptr;  // sums over rows, added to; laid out as bias
};

void RunQrnnTile(const QrnnForwardTile<float>& tile);
void RunQrnnTile(const QrnnBackwardTile<float>& tile);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_QRNN_TILE_H_
