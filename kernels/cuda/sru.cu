#include <cstdint>

#include "kernels/cell_args.h"
#include "kernels/cuda/activations.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/linear_scan.cuh"
#include "kernels/cuda/recurrence.cuh"
#include "kernels/cuda/recurrence_plan.h"
#include "kernels/cuda/sru.h"
#include "kernels/cuda/storage.cuh"
#include "kernels/tensor.h"

namespace recurve::cuda {
namespace {

// --- device code ---

template <typename S>
struct ForwardParameters {
  SruForwardArgs<S> args;
  Matrix<S> y;
};

template <typename S>
struct BackwardParameters {
  SruBackwardArgs<S> args;
  Matrix<const S> dy;
};

// Where gate group m of a walk's direction begins in u.
__device__ int64_t GateColumn(const SruShape& shape, const Walk& walk,
                              int64_t m) {
  return (walk.direction * shape.gate_groups() + m) * shape.hidden_size +
         walk.unit;
}

template <typename S>
__device__ Column<S> GateGroup(const SruForwardArgs<S>& args, const Walk& walk,
                               int64_t m) {
  return {args.u, walk, GateColumn(args.shape, walk, m)};
}

// What both passes read of a row, and the gates that they compute from it:
//   f = s(u1 + b_f + v_f p)    r = s(u2 + b_r + v_r p)
template <typename S, int kVec, bool kStepCoefficients>
class GateReader {
 public:
  struct Inputs {
    Pack<S, kVec> candidate, forget, reset, skip, v_f, v_r;
  };
  struct Gates {
    float candidate, f, r, skip, v_f, v_r, mask;
  };

  __device__ GateReader(const SruForwardArgs<S>& args, const Walk& walk)
      : u_(args.u, walk, GateColumn(args.shape, walk, 0)),
        group_(static_cast<int>(args.shape.hidden_size)),
        step_group_(static_cast<int>(args.shape.gate_groups() - 2) * group_),
        skip_scale_(1.0f) {
    if (args.shape.skip == SruSkip::kInput) {
      skip_ = Column<const S>(args.x, walk, walk.channel);
      skip_scale_ = args.shape.skip_scale;
    } else if (args.shape.skip == SruSkip::kTransform) {
      skip_ = Column<const S>(args.u, walk, GateColumn(args.shape, walk, 3));
    }
    const int64_t channels = args.shape.channels();
    LoadChannels(args.weights.v + walk.channel, v_f_);
    LoadChannels(args.weights.v + channels + walk.channel, v_r_);
    LoadChannels(args.weights.bias + walk.channel, b_f_);
    LoadChannels(args.weights.bias + channels + walk.channel, b_r_);
    LoadChannels(StateOf(args.mask_cell, walk), mask_, 1.0f);
  }

  __device__ Inputs Load(int row) const {
    using Row = Pack<S, kVec>;
    const S* u = u_[row];
    Inputs in;
    in.candidate = Row::Load(u);
    in.forget = Row::Load(u + group_);
    in.reset = Row::Load(u + 2 * group_);
    in.skip = skip_ ? Row::Load(skip_[row]) : Row::Zeros();
    if constexpr (kStepCoefficients) {
      in.v_f = Row::Load(u + step_group_);
      in.v_r = Row::Load(u + step_group_ + group_);
    }
    return in;
  }

  // Channel i, whose state before the step is p.
  __device__ Gates Compute(const Inputs& in, int i, float p) const {
    Gates gates;
    gates.candidate = in.candidate.Get(i);
    gates.v_f = v_f_[i];
    gates.v_r = v_r_[i];
    if constexpr (kStepCoefficients) {
      gates.v_f += in.v_f.Get(i);
      gates.v_r += in.v_r.Get(i);
    }
    gates.f = Sigmoid(fmaf(gates.v_f, p, in.forget.Get(i) + b_f_[i]));
    gates.r = Sigmoid(fmaf(gates.v_r, p, in.reset.Get(i) + b_r_[i]));
    gates.skip = in.skip.Get(i) * skip_scale_;
    gates.mask = mask_[i];
    return gates;
  }

  __device__ float skip_scale() const { return skip_scale_; }

 private:
  Column<const S> u_;
  Column<const S> skip_;
  int group_;       // elements between gate groups
  int step_group_;  // to the group of step coefficients v_f; v_r's follows
  float skip_scale_;
  float v_f_[kVec], v_r_[kVec], b_f_[kVec], b_r_[kVec], mask_[kVec];
};

//   c = u0 + (p - u0) f
__device__ inline float NewState(float candidate, float f, float p) {
  return fmaf(p - candidate, f, candidate);
}

// With g = c or tanh(c):
//   y = skip + (g - skip) m r
template <typename S, int kVec, bool kStepCoefficients>
class ForwardCell {
 public:
  using Reader = GateReader<S, kVec, kStepCoefficients>;
  using Inputs = typename Reader::Inputs;

  __device__ ForwardCell(const ForwardParameters<S>& p, const Walk& walk)
      : reader_(p.args, walk),
        y_(p.y, walk, walk.channel),
        c_(p.args.c, walk, walk.channel),
        use_tanh_(p.args.shape.use_tanh) {}

  __device__ Inputs Load(int row) const { return reader_.Load(row); }

  __device__ void Step(const Inputs& in, int row, float (&state)[kVec]) const {
    Pack<S, kVec> y;
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const auto gates = reader_.Compute(in, i, state[i]);
      const float c = NewState(gates.candidate, gates.f, state[i]);
      const float g = use_tanh_ ? Tanh(c) : c;
      y.Set(i, fmaf(g - gates.skip, gates.mask * gates.r, gates.skip));
      state[i] = c;
    }
    y.Store(y_[row]);
    if (c_) StoreChannels(state, c_[row]);
  }

 private:
  Reader reader_;
  Column<S> y_;
  Column<float> c_;
  bool use_tanh_;
};

// With q the gradient of c after this row, t = 1 - g^2 (tanh) or 1:
//   a_r = dy (g - skip) m r (1 - r)    dc = q + dy m r t
//   a_f = dc (p - u0) f (1 - f)        du = dc (1 - f), a_f, a_r
//   dskip = dy (1 - m r)               q <- dc f + a_f v_f + a_r v_r
template <typename S, int kVec, bool kStepCoefficients>
class BackwardCell {
 public:
  using Reader = GateReader<S, kVec, kStepCoefficients>;
  struct Inputs {
    typename Reader::Inputs gates;
    Pack<float, kVec> p;
    Pack<S, kVec> dy;
  };
  struct Prepared {
    float f[kVec];
    float f_slope[kVec];  // a_f = dc f_slope
    float dg[kVec];       // dc = q + dg
    float v_f[kVec];
    float a_r_v_r[kVec];
    float p[kVec];
  };

  __device__ BackwardCell(const BackwardParameters<S>& p, const Walk& walk)
      : reader_(p.args.forward, walk),
        before_(p.args.forward.c, p.args.forward.c_first, walk),
        dy_(p.dy, walk, walk.channel),
        du_(GateGroup(p.args.forward, walk, 0)),
        group_(static_cast<int>(p.args.forward.shape.hidden_size)),
        step_group_(static_cast<int>(p.args.forward.shape.gate_groups() - 2) *
                    group_),
        use_tanh_(p.args.forward.shape.use_tanh) {
    const SruSkip skip = p.args.forward.shape.skip;
    if (skip == SruSkip::kInput) {
      dskip_ = Column<S>(p.args.dx, walk, walk.channel);
    } else if (skip == SruSkip::kTransform) {
      dskip_ = GateGroup(p.args.forward, walk, 3);
    }
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      sums[0][i] = sums[1][i] = sums[2][i] = sums[3][i] = 0.0f;
    }
  }

  __device__ Inputs Load(int row) const {
    return {reader_.Load(row), before_.Load(row),
            Pack<S, kVec>::Load(dy_[row])};
  }

  // The skip's gradient goes out before that of u: the skip term may be gate
  // group 3, read above.
  __device__ void Prepare(const Inputs& in, int row, Prepared& prepared) {
    Pack<S, kVec> du_r, dskip, dv_r;
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const float p = in.p.Get(i);
      const auto gates = reader_.Compute(in.gates, i, p);
      const float c = NewState(gates.candidate, gates.f, p);
      const float g = use_tanh_ ? Tanh(c) : c;
      const float dy = in.dy.Get(i);
      const float weight = gates.mask * gates.r;
      const float a_r =
          dy * (g - gates.skip) * gates.mask * SigmoidSlope(gates.r);
      const float dg = dy * weight;
      prepared.f[i] = gates.f;
      prepared.f_slope[i] = (p - gates.candidate) * SigmoidSlope(gates.f);
      prepared.dg[i] = use_tanh_ ? dg * TanhSlope(g) : dg;
      prepared.v_f[i] = gates.v_f;
      prepared.a_r_v_r[i] = a_r * gates.v_r;
      prepared.p[i] = p;
      du_r.Set(i, a_r);
      dskip.Set(i, fmaf(-dy, weight, dy) * reader_.skip_scale());
      dv_r.Set(i, a_r * p);
      sums[1][i] = fmaf(a_r, p, sums[1][i]);
      sums[3][i] += a_r;
    }
    S* du = du_[row];
    if (dskip_) dskip.Store(dskip_[row]);
    du_r.Store(du + 2 * group_);
    if constexpr (kStepCoefficients) dv_r.Store(du + step_group_ + group_);
  }

  // The whole step's map q -> q, for one channel.
  __device__ LinearMap Map(const Prepared& prepared) const {
    const float keep =
        fmaf(prepared.f_slope[0], prepared.v_f[0], prepared.f[0]);
    return {1.0f - keep, fmaf(keep, prepared.dg[0], prepared.a_r_v_r[0])};
  }

  __device__ void Finish(const Prepared& prepared, int row, float (&q)[kVec]) {
    Pack<S, kVec> du_0, du_f, dv_f;
#pragma unroll
    for (int i = 0; i < kVec; ++i) {
      const float dc = q[i] + prepared.dg[i];
      const float a_f = dc * prepared.f_slope[i];
      const float p = prepared.p[i];
      q[i] = fmaf(dc, prepared.f[i],
                  fmaf(a_f, prepared.v_f[i], prepared.a_r_v_r[i]));
      du_0.Set(i, dc * (1.0f - prepared.f[i]));
      du_f.Set(i, a_f);
      dv_f.Set(i, a_f * p);
      sums[0][i] = fmaf(a_f, p, sums[0][i]);
      sums[2][i] += a_f;
    }
    S* du = du_[row];
    du_0.Store(du);
    du_f.Store(du + group_);
    if constexpr (kStepCoefficients) dv_f.Store(du + step_group_);
  }

  __device__ void Step(const Inputs& in, int row, float (&q)[kVec]) {
    Prepared prepared;
    Prepare(in, row, prepared);
    Finish(prepared, row, q);
  }

  // Over the walked rows: dv_f, dv_r, db_f, db_r.
  float sums[4][kVec];

 private:
  Reader reader_;
  StateBefore<kVec> before_;
  Column<const S> dy_;
  Column<S> du_;
  Column<S> dskip_;
  int group_, step_group_;
  bool use_tanh_;
};

template <typename S, int kVec>
__device__ void StorePartials(const BackwardParameters<S>& p, const Walk& walk,
                              const float (&sums)[4][kVec]) {
  float* partials = StateOf(p.args.channel_partials, walk);
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    StoreChannels(sums[n], partials + n * p.args.forward.shape.channels());
  }
}

template <typename S, int kVec, bool kStepCoefficients>
__global__ void __launch_bounds__(kMaxWalkThreads)
    SruForwardKernel(const ForwardParameters<S> p) {
  Walk walk;
  if (!FindSerialWalk<kVec>(p.args.layout, p.args.shape.num_directions,
                            p.args.shape.hidden_size, false, walk)) {
    return;
  }
  ForwardCell<S, kVec, kStepCoefficients> cell(p, walk);
  float state[kVec];
  LoadChannels(StateOf(p.args.c_first, walk), state);
  WalkSerially<kVec == 1 ? 8 : 4>(cell, walk, state);
  if (p.args.c_last) StoreChannels(state, StateOf(p.args.c_last, walk));
}

template <typename S, int kVec, bool kStepCoefficients>
__global__ void __launch_bounds__(kMaxWalkThreads)
    SruBackwardKernel(const BackwardParameters<S> p) {
  const SruForwardArgs<S>& forward = p.args.forward;
  Walk walk;
  if (!FindSerialWalk<kVec>(forward.layout, forward.shape.num_directions,
                            forward.shape.hidden_size, true, walk)) {
    return;
  }
  BackwardCell<S, kVec, kStepCoefficients> cell(p, walk);
  float q[kVec];
  LoadChannels(StateOf(p.args.dc_last, walk), q);
  // More steps ahead would not fit the registers.
  constexpr int kWideDepth = kStepCoefficients ? 1 : 2;
  WalkSerially<kVec == 1 ? 6 : kWideDepth>(cell, walk, q);
  StorePartials(p, walk, cell.sums);
  if (p.args.dc_first) StoreChannels(q, StateOf(p.args.dc_first, walk));
}

template <typename S, bool kStepCoefficients>
__global__ void __launch_bounds__(kScanThreads)
    SruBackwardScanKernel(const BackwardParameters<S> p) {
  RECURVE_SHARED(float2, maps, 2 * kScanThreads);
  RECURVE_SHARED(float, shared_sums, 4 * kScanThreads);
  const SruForwardArgs<S>& forward = p.args.forward;
  const ScanPlace place =
      FindScanPlace(forward.layout, forward.shape.num_directions,
                    forward.shape.hidden_size, true);
  BackwardCell<S, 1, kStepCoefficients> cell(p, place.walk);
  float q[1];
  LoadChannels(StateOf(p.args.dc_last, place.walk), q);
  ScanLinearly(cell, place, maps, q);
  SumOverWarps<4>(place, shared_sums, cell.sums);
  if (place.active && place.warp == 0) StorePartials(p, place.walk, cell.sums);
  if (p.args.dc_first && place.OwnsLastState()) {
    StoreChannels(q, StateOf(p.args.dc_first, place.walk));
  }
}

// --- launchers ---

template <typename S>
RecurrenceProblem Problem(const SruForwardArgs<S>& args) {
  RecurrenceProblem problem;
  problem.num_sequences = args.layout.num_sequences;
  problem.num_rows = args.layout.num_rows;
  problem.hidden_size = args.shape.hidden_size;
  problem.num_directions = args.shape.num_directions;
  problem.element_bytes = sizeof(S);
  const Matrix<const float> v(args.weights.v, 2, args.shape.channels());
  const Matrix<const float> bias(args.weights.bias, 2, args.shape.channels());
  problem.address_bits =
      AddressBits(args.u) | AddressBits(args.c) | AddressBits(args.c_first) |
      AddressBits(args.mask_cell) | AddressBits(v) | AddressBits(bias);
  if (args.shape.skip == SruSkip::kInput) {
    problem.address_bits |= AddressBits(args.x);
  }
  return problem;
}

template <typename S, bool kStepCoefficients>
cudaError_t LaunchForward(const ForwardParameters<S>& p,
                          const RecurrencePlan& plan, cudaStream_t stream) {
  const dim3 grid = WalkGrid(p.args.layout, p.args.shape.num_directions,
                             p.args.shape.hidden_size, plan);
  return plan.vec == 1
             ? Launch<SruForwardKernel<S, 1, kStepCoefficients>>(
                   grid, plan.block, stream, p)
             : Launch<SruForwardKernel<S, kWideVec<S>, kStepCoefficients>>(
                   grid, plan.block, stream, p);
}

template <typename S, bool kStepCoefficients>
cudaError_t LaunchBackward(const BackwardParameters<S>& p,
                           const RecurrencePlan& plan, cudaStream_t stream) {
  const SruForwardArgs<S>& forward = p.args.forward;
  const dim3 grid = WalkGrid(forward.layout, forward.shape.num_directions,
                             forward.shape.hidden_size, plan);
  if (plan.scan) {
    return Launch<SruBackwardScanKernel<S, kStepCoefficients>>(grid, plan.block,
                                                               stream, p);
  }
  return plan.vec == 1
             ? Launch<SruBackwardKernel<S, 1, kStepCoefficients>>(
                   grid, plan.block, stream, p)
             : Launch<SruBackwardKernel<S, kWideVec<S>, kStepCoefficients>>(
                   grid, plan.block, stream, p);
}

}  // namespace

template <typename S>
RecurrenceProblem SruProblem(const SruForwardArgs<S>& args, Matrix<S> y) {
  RecurrenceProblem problem = Problem(args);
  problem.recurrence = Recurrence::kSruForward;
  problem.address_bits |= AddressBits(y) | AddressBits(args.c_last);
  return problem;
}

template <typename S>
RecurrenceProblem SruProblem(const SruBackwardArgs<S>& args,
                             Matrix<const S> dy) {
  RecurrenceProblem problem = Problem(args.forward);
  problem.recurrence = Recurrence::kSruBackward;
  problem.address_bits |= AddressBits(dy) | AddressBits(args.dc_last) |
                          AddressBits(args.dc_first) |
                          AddressBits(args.channel_partials);
  if (args.forward.shape.skip == SruSkip::kInput) {
    problem.address_bits |= AddressBits(args.dx);
  }
  return problem;
}

template <typename S>
cudaError_t SruRecurrence(const SruForwardArgs<S>& args, Matrix<S> y,
                          const RecurrencePlan& plan, cudaStream_t stream) {
  const ForwardParameters<S> p{args, y};
  return args.shape.has_step_coefficients
             ? LaunchForward<S, true>(p, plan, stream)
             : LaunchForward<S, false>(p, plan, stream);
}

template <typename S>
cudaError_t SruRecurrence(const SruForwardArgs<S>& args, Matrix<S> y,
                          cudaStream_t stream) {
  return SruRecurrence(args, y, PlanRecurrence(SruProblem(args, y)), stream);
}

template <typename S>
cudaError_t SruRecurrenceBackward(const SruBackwardArgs<S>& args,
                                  Matrix<const S> dy,
                                  const RecurrencePlan& plan,
                                  cudaStream_t stream) {
  const BackwardParameters<S> p{args, dy};
  return args.forward.shape.has_step_coefficients
             ? LaunchBackward<S, true>(p, plan, stream)
             : LaunchBackward<S, false>(p, plan, stream);
}

template <typename S>
cudaError_t SruRecurrenceBackward(const SruBackwardArgs<S>& args,
                                  Matrix<const S> dy, cudaStream_t stream) {
  return SruRecurrenceBackward(args, dy, PlanRecurrence(SruProblem(args, dy)),
                               stream);
}

#define RECURVE_INSTANTIATE(S)                                                \
  template RecurrenceProblem SruProblem(const SruForwardArgs<S>&, Matrix<S>); \
  template RecurrenceProblem SruProblem(const SruBackwardArgs<S>&,            \
                                        Matrix<const S>);                     \
  template cudaError_t SruRecurrence(const SruForwardArgs<S>&, Matrix<S>,     \
                                     cudaStream_t);                           \
  template cudaError_t SruRecurrence(const SruForwardArgs<S>&, Matrix<S>,     \
                                     const RecurrencePlan&, cudaStream_t);    \
  template cudaError_t SruRecurrenceBackward(const SruBackwardArgs<S>&,       \
                                             Matrix<const S>, cudaStream_t);  \
  template cudaError_t SruRecurrenceBackward(                                 \
      const SruBackwardArgs<S>&, Matrix<const S>, const RecurrencePlan&,      \
      cudaStream_t);

RECURVE_INSTANTIATE(float)
RECURVE_INSTANTIATE(BFloat16)
RECURVE_INSTANTIATE(Float16)

#undef RECURVE_INSTANTIATE

}  // namespace recurve::cuda
