#include <cstdint>

#include "kernels/cell_args.h"
#include "kernels/cuda/activations.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/linear_scan.cuh"
#include "kernels/cuda/qrnn.h"
#include "kernels/cuda/recurrence.cuh"
#include "kernels/cuda/recurrence_plan.h"
#include "kernels/cuda/storage.cuh"
#include "kernels/tensor.h"

namespace recurve::cuda {
namespace {

// --- device code ---

// The most gate groups: z, i, o.
constexpr int kGates = 3;

// Where a walk's direction begins in u, in the biases and in their gradients.
template <typename S>
__device__ int64_t GateColumn(const QrnnForwardArgs<S>& args,
                              const Walk& walk) {
  return walk.direction * args.shape.gate_groups() * args.shape.hidden_size +
         walk.unit;
}

// What both passes read of a row, and the gates that they compute from it:
//   z = tanh(u_z + b_z)   i = s zoneout, s = s(u_i + b_i)   o = s(u_o + b_o)
template <typename S, int kVec>
class GateReader {
 public:
  struct Inputs {
    Pack<S, kVec> z, i, o;
    Pack<float, kVec> zoneout;
  };
  struct Gates {
    float z, s, zoneout, i, o;
  };

  __device__ GateReader(const QrnnForwardArgs<S>& args, const Walk& walk)
      : u_(args.u, walk, GateColumn(args, walk)),
        zoneout_(args.zoneout_mask, walk, walk.channel),
        group_(static_cast<int>(args.shape.hidden_size)),
        output_gate_(args.shape.output_gate),
        i_scale_(1.0f - args.shape.zoneout) {
    const float* bias = args.weights.bias + GateColumn(args, walk);
    LoadChannels(bias, b_z_);
    LoadChannels(bias + group_, b_i_);
    LoadChannels(output_gate_ ? bias + 2 * group_ : nullptr, b_o_);
  }

  __device__ Inputs Load(int row) const {
    using Row = Pack<S, kVec>;
    const S* u = u_[row];
    Inputs in;
    in.z = Row::Load(u);
    in.i = Row::Load(u + group_);
    in.o = output_gate_ ? Row::Load(u + 2 * group_) : Row::Zeros();
    in.zoneout = zoneout_ ? Pack<float, kVec>::Load(zoneout_[row])
                          : Pack<float, kVec>::Zeros();
    return in;
  }

  // Channel k.
  __device__ Gates Compute(const Inputs& in, int k) const {
    Gates gates;
    gates.z = Tanh(in.z.Get(k) + b_z_[k]);
    gates.s = Sigmoid(in.i.Get(k) + b_i_[k]);
    gates.zoneout = zoneout_ ? in.zoneout.Get(k) : i_scale_;
    gates.i = gates.s * gates.zoneout;
    gates.o = output_gate_ ? Sigmoid(in.o.Get(k) + b_o_[k]) : 1.0f;
    return gates;
  }

  __device__ int group() const { return group_; }
  __device__ bool output_gate() const { return output_gate_; }

 private:
  Column<const S> u_;
  Column<const float> zoneout_;
  int group_;  // elements between gate groups
  bool output_gate_;
  float i_scale_;
  float b_z_[kVec], b_i_[kVec], b_o_[kVec];
};

//   c = p + i (z - p)
__device__ inline float NewState(float z, float i, float p) {
  return fmaf(i, z - p, p);
}

//   y = o c
template <typename S, int kVec>
class ForwardCell {
 public:
  using Reader = GateReader<S, kVec>;
  using Inputs = typename Reader::Inputs;
  struct Prepared {
    float z[kVec], i[kVec], o[kVec];
  };

  __device__ ForwardCell(const QrnnForwardArgs<S>& args, const Walk& walk)
      : reader_(args, walk),
        y_(args.y, walk, walk.channel),
        c_(args.c, walk, walk.channel) {}

  __device__ Inputs Load(int row) const { return reader_.Load(row); }

  __device__ void Prepare(const Inputs& in, int, Prepared& prepared) const {
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      const auto gates = reader_.Compute(in, k);
      prepared.z[k] = gates.z;
      prepared.i[k] = gates.i;
      prepared.o[k] = gates.o;
    }
  }

  __device__ LinearMap Map(const Prepared& prepared) const {
    return {prepared.i[0], prepared.i[0] * prepared.z[0]};
  }

  __device__ void Finish(const Prepared& prepared, int row,
                         float (&state)[kVec]) const {
    Pack<S, kVec> y;
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      state[k] = NewState(prepared.z[k], prepared.i[k], state[k]);
      y.Set(k, prepared.o[k] * state[k]);
    }
    y.Store(y_[row]);
    if (c_) StoreChannels(state, c_[row]);
  }

  __device__ void Step(const Inputs& in, int row, float (&state)[kVec]) const {
    Prepared prepared;
    Prepare(in, row, prepared);
    Finish(prepared, row, state);
  }

 private:
  Reader reader_;
  Column<S> y_;
  Column<float> c_;
};

// With q the gradient of c after this row:
//   du_o = dy c o (1 - o)           q += dy o
//   du_z = q i (1 - z^2)            du_i = q (z - p) zoneout s (1 - s)
//   q <- q (1 - i)
template <typename S, int kVec>
class BackwardCell {
 public:
  using Reader = GateReader<S, kVec>;
  struct Inputs {
    typename Reader::Inputs gates;
    Pack<float, kVec> p;
    Pack<S, kVec> dy;
  };
  struct Prepared {
    float dc[kVec];  // dy o
    float i[kVec];
    float z_slope[kVec];  // du_z = q z_slope, du_i = q i_slope
    float i_slope[kVec];
  };

  __device__ BackwardCell(const QrnnBackwardArgs<S>& args, const Walk& walk)
      : reader_(args.forward, walk),
        before_(args.forward.c, args.forward.c_first, walk),
        dy_(args.dy, walk, walk.channel),
        du_(args.forward.u, walk, GateColumn(args.forward, walk)) {
#pragma unroll
    for (int k = 0; k < kVec; ++k) sums[0][k] = sums[1][k] = sums[2][k] = 0.0f;
  }

  __device__ Inputs Load(int row) const {
    return {reader_.Load(row), before_.Load(row),
            Pack<S, kVec>::Load(dy_[row])};
  }

  __device__ void Prepare(const Inputs& in, int row, Prepared& prepared) {
    Pack<S, kVec> du_o;
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      const auto gates = reader_.Compute(in.gates, k);
      const float p = in.p.Get(k);
      const float dy = in.dy.Get(k);
      const float c = NewState(gates.z, gates.i, p);
      prepared.dc[k] = dy * gates.o;
      prepared.i[k] = gates.i;
      prepared.z_slope[k] = gates.i * TanhSlope(gates.z);
      prepared.i_slope[k] =
          (gates.z - p) * gates.zoneout * SigmoidSlope(gates.s);
      const float slope = dy * c * SigmoidSlope(gates.o);
      du_o.Set(k, slope);
      sums[2][k] += slope;
    }
    if (reader_.output_gate()) du_o.Store(du_[row] + 2 * reader_.group());
  }

  __device__ LinearMap Map(const Prepared& prepared) const {
    const float dc = prepared.dc[0];
    return {prepared.i[0], fmaf(-prepared.i[0], dc, dc)};
  }

  __device__ void Finish(const Prepared& prepared, int row, float (&q)[kVec]) {
    Pack<S, kVec> du_z, du_i;
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      const float dc = q[k] + prepared.dc[k];
      const float z = dc * prepared.z_slope[k];
      const float i = dc * prepared.i_slope[k];
      du_z.Set(k, z);
      du_i.Set(k, i);
      sums[0][k] += z;
      sums[1][k] += i;
      q[k] = fmaf(-dc, prepared.i[k], dc);
    }
    S* du = du_[row];
    du_z.Store(du);
    du_i.Store(du + reader_.group());
  }

  __device__ void Step(const Inputs& in, int row, float (&q)[kVec]) {
    Prepared prepared;
    Prepare(in, row, prepared);
    Finish(prepared, row, q);
  }

  // Over the walked rows, the gradients of the biases.
  float sums[kGates][kVec];

 private:
  Reader reader_;
  StateBefore<kVec> before_;
  Column<const S> dy_;
  Column<S> du_;
};

template <typename S, int kVec>
__device__ void StorePartials(const QrnnBackwardArgs<S>& p, const Walk& walk,
                              const float (&sums)[kGates][kVec]) {
  const QrnnShape& shape = p.forward.shape;
  float* partials =
      p.channel_partials.row(walk.sequence) + GateColumn(p.forward, walk);
#pragma unroll
  for (int n = 0; n < kGates; ++n) {
    if (n < shape.gate_groups()) {
      StoreChannels(sums[n], partials + n * shape.hidden_size);
    }
  }
}

template <typename S, int kVec>
__global__ void __launch_bounds__(kMaxWalkThreads)
    QrnnForwardKernel(const QrnnForwardArgs<S> p) {
  Walk walk;
  if (!FindSerialWalk<kVec>(p.layout, p.shape.num_directions,
                            p.shape.hidden_size, false, walk)) {
    return;
  }
  ForwardCell<S, kVec> cell(p, walk);
  float state[kVec];
  LoadChannels(StateOf(p.c_first, walk), state);
  WalkSerially<kVec == 1 ? 8 : 4>(cell, walk, state);
  if (p.c_last) StoreChannels(state, StateOf(p.c_last, walk));
}

template <typename S, int kVec>
__global__ void __launch_bounds__(kMaxWalkThreads)
    QrnnBackwardKernel(const QrnnBackwardArgs<S> p) {
  Walk walk;
  if (!FindSerialWalk<kVec>(p.forward.layout, p.forward.shape.num_directions,
                            p.forward.shape.hidden_size, true, walk)) {
    return;
  }
  BackwardCell<S, kVec> cell(p, walk);
  float q[kVec];
  LoadChannels(StateOf(p.dc_last, walk), q);
  WalkSerially<kVec == 1 ? 6 : 2>(cell, walk, q);
  StorePartials(p, walk, cell.sums);
  if (p.dc_first) StoreChannels(q, StateOf(p.dc_first, walk));
}

template <typename S>
__global__ void __launch_bounds__(kScanThreads)
    QrnnForwardScanKernel(const QrnnForwardArgs<S> p) {
  RECURVE_SHARED(float2, maps, 2 * kScanThreads);
  const ScanPlace place = FindScanPlace(p.layout, p.shape.num_directions,
                                        p.shape.hidden_size, false);
  ForwardCell<S, 1> cell(p, place.walk);
  float state[1];
  LoadChannels(StateOf(p.c_first, place.walk), state);
  ScanLinearly(cell, place, maps, state);
  if (p.c_last && place.OwnsLastState()) {
    StoreChannels(state, StateOf(p.c_last, place.walk));
  }
}

template <typename S>
__global__ void __launch_bounds__(kScanThreads)
    QrnnBackwardScanKernel(const QrnnBackwardArgs<S> p) {
  RECURVE_SHARED(float2, maps, 2 * kScanThreads);
  RECURVE_SHARED(float, shared_sums, kGates* kScanThreads);
  const ScanPlace place =
      FindScanPlace(p.forward.layout, p.forward.shape.num_directions,
                    p.forward.shape.hidden_size, true);
  BackwardCell<S, 1> cell(p, place.walk);
  float q[1];
  LoadChannels(StateOf(p.dc_last, place.walk), q);
  ScanLinearly(cell, place, maps, q);
  SumOverWarps<kGates>(place, shared_sums, cell.sums);
  if (place.active && place.warp == 0) StorePartials(p, place.walk, cell.sums);
  if (p.dc_first && place.OwnsLastState()) {
    StoreChannels(q, StateOf(p.dc_first, place.walk));
  }
}

// --- launchers ---

template <typename S>
RecurrenceProblem Problem(const QrnnForwardArgs<S>& args) {
  RecurrenceProblem problem;
  problem.num_sequences = args.layout.num_sequences;
  problem.num_rows = args.layout.num_rows;
  problem.hidden_size = args.shape.hidden_size;
  problem.num_directions = args.shape.num_directions;
  problem.element_bytes = sizeof(S);
  const Matrix<const float> bias(args.weights.bias, 1,
                                 args.shape.projected_cols());
  problem.address_bits = AddressBits(args.u) | AddressBits(args.c) |
                         AddressBits(args.c_first) |
                         AddressBits(args.zoneout_mask) | AddressBits(bias);
  return problem;
}

}  // namespace

template <typename S>
RecurrenceProblem QrnnProblem(const QrnnForwardArgs<S>& args) {
  RecurrenceProblem problem = Problem(args);
  problem.recurrence = Recurrence::kQrnnForward;
  problem.address_bits |= AddressBits(args.y) | AddressBits(args.c_last);
  return problem;
}

template <typename S>
RecurrenceProblem QrnnProblem(const QrnnBackwardArgs<S>& args) {
  RecurrenceProblem problem = Problem(args.forward);
  problem.recurrence = Recurrence::kQrnnBackward;
  problem.address_bits |= AddressBits(args.dy) | AddressBits(args.dc_last) |
                          AddressBits(args.dc_first) |
                          AddressBits(args.channel_partials);
  return problem;
}

template <typename S>
cudaError_t QrnnRecurrence(const QrnnForwardArgs<S>& args,
                           const RecurrencePlan& plan, cudaStream_t stream) {
  const dim3 grid = WalkGrid(args.layout, args.shape.num_directions,
                             args.shape.hidden_size, plan);
  if (plan.scan) {
    return Launch<QrnnForwardScanKernel<S>>(grid, plan.block, stream, args);
  }
  return plan.vec == 1
             ? Launch<QrnnForwardKernel<S, 1>>(grid, plan.block, stream, args)
             : Launch<QrnnForwardKernel<S, kWideVec<S>>>(grid, plan.block,
                                                         stream, args);
}

template <typename S>
cudaError_t QrnnRecurrence(const QrnnForwardArgs<S>& args,
                           cudaStream_t stream) {
  return QrnnRecurrence(args, PlanRecurrence(QrnnProblem(args)), stream);
}

template <typename S>
cudaError_t QrnnRecurrenceBackward(const QrnnBackwardArgs<S>& args,
                                   const RecurrencePlan& plan,
                                   cudaStream_t stream) {
  const QrnnForwardArgs<S>& forward = args.forward;
  const dim3 grid = WalkGrid(forward.layout, forward.shape.num_directions,
                             forward.shape.hidden_size, plan);
  if (plan.scan) {
    return Launch<QrnnBackwardScanKernel<S>>(grid, plan.block, stream, args);
  }
  return plan.vec == 1
             ? Launch<QrnnBackwardKernel<S, 1>>(grid, plan.block, stream, args)
             : Launch<QrnnBackwardKernel<S, kWideVec<S>>>(grid, plan.block,
                                                          stream, args);
}

template <typename S>
cudaError_t QrnnRecurrenceBackward(const QrnnBackwardArgs<S>& args,
                                   cudaStream_t stream) {
  return QrnnRecurrenceBackward(args, PlanRecurrence(QrnnProblem(args)),
                                stream);
}

#define RECURVE_INSTANTIATE(S)                                              \
  template RecurrenceProblem QrnnProblem(const QrnnForwardArgs<S>&);        \
  template RecurrenceProblem QrnnProblem(const QrnnBackwardArgs<S>&);       \
  template cudaError_t QrnnRecurrence(const QrnnForwardArgs<S>&,            \
                                      cudaStream_t);                        \
  template cudaError_t QrnnRecurrence(const QrnnForwardArgs<S>&,            \
                                      const RecurrencePlan&, cudaStream_t); \
  template cudaError_t QrnnRecurrenceBackward(const QrnnBackwardArgs<S>&,   \
                                              cudaStream_t);                \
  template cudaError_t QrnnRecurrenceBackward(                              \
      const QrnnBackwardArgs<S>&, const RecurrencePlan&, cudaStream_t);

RECURVE_INSTANTIATE(float)
RECURVE_INSTANTIATE(BFloat16)
RECURVE_INSTANTIATE(Float16)

#undef RECURVE_INSTANTIATE

}  // namespace recurve::cuda
