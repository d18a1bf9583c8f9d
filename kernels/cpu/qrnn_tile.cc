#include "kernels/cpu/qrnn_tile.h"

#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/qrnn_tile.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace recurve::cpu {
namespace HWY_NAMESPACE {

// Gate group m of one row before its non-linearity.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V LoadGate(D d, const QrnnTileInputs& in, const float* u, int64_t m,
                      int64_t j) {
  return hn::Add(hn::LoadU(d, u + m * in.gate_stride + j),
                 hn::LoadU(d, in.bias + m * in.bias_stride + j));
}

// What zoneout multiplies the update gate by.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V LoadZoneout(D d, const QrnnTileInputs& in, int64_t row,
                         int64_t j) {
  return in.zoneout_mask ? hn::LoadU(d, in.zoneout_mask[row] + j)
                         : hn::Set(d, in.i_scale);
}

//   z = tanh(u_z + b_z)   i = s(u_i + b_i) zoneout   o = s(u_o + b_o)
//   c = p + i (z - p)     y = o c
template <bool kOutputGate, class D>
HWY_INLINE void ForwardStep(D d, const QrnnForwardTile<float>& tile,
                            int64_t row, int64_t j) {
  using V = hn::Vec<D>;
  const QrnnTileInputs& in = tile.in;
  const float* u = tile.u[row];
  const V z = Tanh(d, LoadGate(d, in, u, 0, j));
  const V i =
      hn::Mul(Sigmoid(d, LoadGate(d, in, u, 1, j)), LoadZoneout(d, in, row, j));
  const V p = hn::LoadU(d, tile.state + j);
  const V c = hn::MulAdd(i, hn::Sub(z, p), p);
  V y = c;
  if (kOutputGate) y = hn::Mul(Sigmoid(d, LoadGate(d, in, u, 2, j)), c);
  hn::StoreU(y, d, tile.y[row] + j);
  hn::StoreU(c, d, tile.state + j);
  if (tile.c) hn::StoreU(c, d, tile.c[row] + j);
}

template <bool kOutputGate>
HWY_INLINE void Prefetch(const QrnnForwardTile<float>& tile, int64_t row,
                         int64_t j) {
  const int64_t stride = tile.in.gate_stride;
  PrefetchToRead(tile.u, row, j);
  PrefetchToRead(tile.u, row, stride + j);
  if (kOutputGate) PrefetchToRead(tile.u, row, 2 * stride + j);
  PrefetchToRead(tile.in.zoneout_mask, row, j);
  PrefetchToWrite(tile.y, row, j);
  PrefetchToWrite(tile.c, row, j);
}

template <bool kOutputGate>
void RunForward(const QrnnForwardTile<float>& tile) {
  const QrnnTileInputs& in = tile.in;
  const Walk walk(in.rows, in.reversed, in.count);
  for (int64_t step = 0; step < walk.steps(); ++step) {
    const int64_t row = walk.row(step), ahead = walk.row_ahead(step);
    ForEachVector(in.count, [&](auto d, int64_t j) HWY_ATTR {
      Prefetch<kOutputGate>(tile, ahead, j);
      ForwardStep<kOutputGate>(d, tile, row, j);
    });
  }
}

void QrnnForwardTileKernel(const QrnnForwardTile<float>& tile) {
  return tile.in.output_gate ? RunForward<true>(tile) : RunForward<false>(tile);
}

// The gradient of gate group m before its non-linearity: into u and the sums.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void StoreGateGradient(D d, const QrnnBackwardTile<float>& tile,
                                  int64_t row, int64_t m, int64_t j,
                                  V gradient) {
  hn::StoreU(gradient, d, tile.u[row] + m * tile.in.gate_stride + j);
  float* sum = tile.dbias + m * tile.in.bias_stride + j;
  hn::StoreU(hn::Add(hn::LoadU(d, sum), gradient), d, sum);
}

// With q the gradient of c after this row, s the sigmoid before zoneout:
//   du_o = dy c o (1 - o)           q += dy o
//   du_z = q i (1 - z^2)            du_i = q (z - p) zoneout s (1 - s)
//   q <- q (1 - i)
template <bool kOutputGate, class D>
HWY_INLINE void BackwardStep(D d, const QrnnBackwardTile<float>& tile,
                             int64_t row, const float* previous, int64_t j) {
  using V = hn::Vec<D>;
  const QrnnTileInputs& in = tile.in;
  const float* u = tile.u[row];
  const V z = Tanh(d, LoadGate(d, in, u, 0, j));
  const V s = Sigmoid(d, LoadGate(d, in, u, 1, j));
  const V zoneout = LoadZoneout(d, in, row, j);
  const V i = hn::Mul(s, zoneout);
  const V p = previous ? hn::LoadU(d, previous + j) : hn::Zero(d);
  V q = hn::LoadU(d, tile.state + j);
  V dc = hn::LoadU(d, tile.dy[row] + j);
  if (kOutputGate) {
    const V o = Sigmoid(d, LoadGate(d, in, u, 2, j));
    const V c = hn::LoadU(d, tile.c[row] + j);
    StoreGateGradient(d, tile, row, 2, j, SigmoidSlope(d, o, hn::Mul(dc, c)));
    dc = hn::Mul(dc, o);
  }
  q = hn::Add(q, dc);
  const V dz = hn::Mul(hn::Mul(q, i), hn::NegMulAdd(z, z, hn::Set(d, 1.0f)));
  const V di = hn::Mul(hn::Mul(q, hn::Sub(z, p)), zoneout);
  StoreGateGradient(d, tile, row, 0, j, dz);
  StoreGateGradient(d, tile, row, 1, j, SigmoidSlope(d, s, di));
  hn::StoreU(hn::NegMulAdd(q, i, q), d, tile.state + j);
}

template <bool kOutputGate>
HWY_INLINE void Prefetch(const QrnnBackwardTile<float>& tile, int64_t row,
                         int64_t j) {
  const int64_t stride = tile.in.gate_stride;
  PrefetchToWrite(tile.u, row, j);
  PrefetchToWrite(tile.u, row, stride + j);
  if (kOutputGate) PrefetchToWrite(tile.u, row, 2 * stride + j);
  PrefetchToRead(tile.in.zoneout_mask, row, j);
  PrefetchToRead(tile.c, row, j);
  PrefetchToRead(tile.dy, row, j);
}

template <bool kOutputGate>
void RunBackward(const QrnnBackwardTile<float>& tile) {
  const QrnnTileInputs& in = tile.in;
  // Against the forward walk.
  const Walk walk(in.rows, !in.reversed, in.count);
  for (int64_t step = 0; step < walk.steps(); ++step) {
    const int64_t row = walk.row(step), ahead = walk.row_ahead(step);
    const float* previous =
        step + 1 < walk.steps() ? tile.c[walk.row(step + 1)] : tile.c_first;
    ForEachVector(in.count, [&](auto d, int64_t j) HWY_ATTR {
      Prefetch<kOutputGate>(tile, ahead, j);
      BackwardStep<kOutputGate>(d, tile, row, previous, j);
    });
  }
}

void QrnnBackwardTileKernel(const QrnnBackwardTile<float>& tile) {
  return tile.in.output_gate ? RunBackward<true>(tile)
                             : RunBackward<false>(tile);
}

}  // namespace HWY_NAMESPACE
}  // namespace recurve::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace recurve::cpu {

HWY_EXPORT(QrnnForwardTileKernel);
HWY_EXPORT(QrnnBackwardTileKernel);

void RunQrnnTile(const QrnnForwardTile<float>& tile) {
  HWY_DYNAMIC_DISPATCH(QrnnForwardTileKernel)(tile);
}

void RunQrnnTile(const QrnnBackwardTile<float>& tile) {
  HWY_DYNAMIC_DISPATCH(QrnnBackwardTileKernel)(tile);
}

}  // namespace recurve::cpu
#endif  // HWY_ONCE
