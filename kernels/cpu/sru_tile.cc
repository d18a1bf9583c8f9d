#include "kernels/cpu/sru_tile.h"

#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/sru_tile.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace recurve::cpu {
namespace HWY_NAMESPACE {

// The gates of one row at channels j.., as both passes compute them:
//   f = s(u1 + b_f + v_f p)    r = s(u2 + b_r + v_r p)
//   c = u0 + (p - u0) f
template <class V>
struct SruGates {
  V candidate, v_f, v_r, f, r;
};

template <class D, class V = hn::Vec<D>>
HWY_INLINE SruGates<V> ComputeGates(D d, const SruTileInputs<float>& in,
                                    const float* u, int64_t j, V p) {
  const int64_t stride = in.gate_stride;
  SruGates<V> gates;
  gates.candidate = hn::LoadU(d, u + j);
  gates.v_f = hn::LoadU(d, in.v_f + j);
  gates.v_r = hn::LoadU(d, in.v_r + j);
  if (in.step_group != 0) {
    const float* step = u + in.step_group * stride + j;
    gates.v_f = hn::Add(gates.v_f, hn::LoadU(d, step));
    gates.v_r = hn::Add(gates.v_r, hn::LoadU(d, step + stride));
  }
  const V f_in =
      hn::Add(hn::LoadU(d, u + stride + j), hn::LoadU(d, in.b_f + j));
  const V r_in =
      hn::Add(hn::LoadU(d, u + 2 * stride + j), hn::LoadU(d, in.b_r + j));
  gates.f = Sigmoid(d, hn::MulAdd(gates.v_f, p, f_in));
  gates.r = Sigmoid(d, hn::MulAdd(gates.v_r, p, r_in));
  return gates;
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V LoadSkip(D d, const SruTileInputs<float>& in, int64_t row,
                      int64_t j) {
  if (!in.skip) return hn::Zero(d);
  return hn::Mul(hn::LoadU(d, in.skip[row] + j), hn::Set(d, in.skip_scale));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V LoadMask(D d, const SruTileInputs<float>& in, int64_t j) {
  return in.mask ? hn::LoadU(d, in.mask + j) : hn::Set(d, 1.0f);
}

//   g = c or tanh(c)    y = skip + (g - skip) m r
template <bool kTanh, class D>
HWY_INLINE void ForwardStep(D d, const SruForwardTile<float>& tile, int64_t row,
                            int64_t j) {
  using V = hn::Vec<D>;
  const V p = hn::LoadU(d, tile.state + j);
  const SruGates<V> gates = ComputeGates(d, tile.in, tile.u[row], j, p);
  const V c = hn::MulAdd(hn::Sub(p, gates.candidate), gates.f, gates.candidate);
  const V g = kTanh ? Tanh(d, c) : c;
  const V skip = LoadSkip(d, tile.in, row, j);
  const V weight = hn::Mul(LoadMask(d, tile.in, j), gates.r);
  hn::StoreU(hn::MulAdd(hn::Sub(g, skip), weight, skip), d, tile.y[row] + j);
  hn::StoreU(c, d, tile.state + j);
  if (tile.c) hn::StoreU(c, d, tile.c[row] + j);
}

HWY_INLINE void Prefetch(const SruForwardTile<float>& tile, int64_t row,
                         int64_t j) {
  const int64_t stride = tile.in.gate_stride;
  for (int64_t m = 0; m < 3; ++m) PrefetchToRead(tile.u, row, m * stride + j);
  PrefetchToRead(tile.in.skip, row, j);
  PrefetchToWrite(tile.y, row, j);
  PrefetchToWrite(tile.c, row, j);
}

template <bool kTanh>
void RunForward(const SruForwardTile<float>& tile) {
  const SruTileInputs<float>& in = tile.in;
  const Walk walk(in.rows, in.reversed, in.count);
  for (int64_t step = 0; step < walk.steps(); ++step) {
    const int64_t row = walk.row(step), ahead = walk.row_ahead(step);
    ForEachVector(in.count, [&](auto d, int64_t j) HWY_ATTR {
      Prefetch(tile, ahead, j);
      ForwardStep<kTanh>(d, tile, row, j);
    });
  }
}

void SruForwardTileKernel(const SruForwardTile<float>& tile) {
  return tile.in.use_tanh ? RunForward<true>(tile) : RunForward<false>(tile);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE void AddTo(D d, float* sum, V term) {
  hn::StoreU(hn::Add(hn::LoadU(d, sum), term), d, sum);
}

// With q the gradient of c after this row and t = 1 - g^2 (tanh) or 1:
//   a_r = dy (g - skip) m r (1 - r)    dc = q + dy m r t
//   a_f = dc (p - u0) f (1 - f)        du = dc (1 - f), a_f, a_r
//   dskip = dy (1 - m r)               q <- dc f + a_f v_f + a_r v_r
template <bool kTanh, class D>
HWY_INLINE void BackwardStep(D d, const SruBackwardTile<float>& tile,
                             int64_t row, const float* previous, int64_t j) {
  using V = hn::Vec<D>;
  const SruTileInputs<float>& in = tile.in;
  const V one = hn::Set(d, 1.0f);
  float* u = tile.u[row] + j;
  const V p = previous ? hn::LoadU(d, previous + j) : hn::Zero(d);
  const SruGates<V> gates = ComputeGates(d, in, tile.u[row], j, p);
  const V c = hn::LoadU(d, tile.c[row] + j);
  const V g = kTanh ? Tanh(d, c) : c;
  const V skip = LoadSkip(d, in, row, j);
  const V mask = LoadMask(d, in, j);
  const V dy = hn::LoadU(d, tile.dy[row] + j);
  const V weight = hn::Mul(mask, gates.r);  // m r

  const V a_r =
      SigmoidSlope(d, gates.r, hn::Mul(hn::Mul(dy, hn::Sub(g, skip)), mask));
  V dg = hn::Mul(dy, weight);
  if (kTanh) dg = hn::Mul(dg, hn::NegMulAdd(g, g, one));
  const V dc = hn::Add(hn::LoadU(d, tile.state + j), dg);
  const V a_f =
      SigmoidSlope(d, gates.f, hn::Mul(dc, hn::Sub(p, gates.candidate)));
  const V q = hn::MulAdd(a_r, gates.v_r,
                         hn::MulAdd(a_f, gates.v_f, hn::Mul(dc, gates.f)));
  hn::StoreU(q, d, tile.state + j);

  // dskip before du: the skip term may be gate group 3, read above.
  if (tile.dskip) {
    const V dskip = hn::NegMulAdd(dy, weight, dy);
    hn::StoreU(hn::Mul(dskip, hn::Set(d, in.skip_scale)), d,
               tile.dskip[row] + j);
  }
  hn::StoreU(hn::Mul(dc, hn::Sub(one, gates.f)), d, u);
  hn::StoreU(a_f, d, u + in.gate_stride);
  hn::StoreU(a_r, d, u + 2 * in.gate_stride);
  const V dv_f = hn::Mul(a_f, p);
  const V dv_r = hn::Mul(a_r, p);
  if (in.step_group != 0) {
    float* step = u + in.step_group * in.gate_stride;
    hn::StoreU(dv_f, d, step);
    hn::StoreU(dv_r, d, step + in.gate_stride);
  }
  AddTo(d, tile.dv_f + j, dv_f);
  AddTo(d, tile.dv_r + j, dv_r);
  AddTo(d, tile.db_f + j, a_f);
  AddTo(d, tile.db_r + j, a_r);
}

HWY_INLINE void Prefetch(const SruBackwardTile<float>& tile, int64_t row,
                         int64_t j) {
  const int64_t stride = tile.in.gate_stride;
  for (int64_t m = 0; m < 3; ++m) PrefetchToWrite(tile.u, row, m * stride + j);
  PrefetchToRead(tile.in.skip, row, j);
  PrefetchToRead(tile.c, row, j);
  PrefetchToRead(tile.dy, row, j);
  PrefetchToWrite(tile.dskip, row, j);
}

template <bool kTanh>
void RunBackward(const SruBackwardTile<float>& tile) {
  const SruTileInputs<float>& in = tile.in;
  // Against the forward walk.
  const Walk walk(in.rows, !in.reversed, in.count);
  for (int64_t step = 0; step < walk.steps(); ++step) {
    const int64_t row = walk.row(step), ahead = walk.row_ahead(step);
    const float* previous =
        step + 1 < walk.steps() ? tile.c[walk.row(step + 1)] : tile.c_first;
    ForEachVector(in.count, [&](auto d, int64_t j) HWY_ATTR {
      Prefetch(tile, ahead, j);
      BackwardStep<kTanh>(d, tile, row, previous, j);
    });
  }
}

void SruBackwardTileKernel(const SruBackwardTile<float>& tile) {
  return tile.in.use_tanh ? RunBackward<true>(tile) : RunBackward<false>(tile);
}

}  // namespace HWY_NAMESPACE
}  // namespace recurve::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace recurve::cpu {

HWY_EXPORT(SruForwardTileKernel);
HWY_EXPORT(SruBackwardTileKernel);

void RunSruTile(const SruForwardTile<float>& tile) {
  HWY_DYNAMIC_DISPATCH(SruForwardTileKernel)(tile);
}

void RunSruTile(const SruBackwardTile<float>& tile) {
  HWY_DYNAMIC_DISPATCH(SruBackwardTileKernel)(tile);
}

}  // namespace recurve::cpu
#endif  // HWY_ONCE
