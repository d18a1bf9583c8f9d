#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/optimizer.h"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/storage.cuh"
#include "kernels/optimizer_coefficients.h"

namespace recurve::cuda {
namespace {

// The intrinsics keep the compiler from fusing a product and a sum.
__device__ inline float Times(float a, float b) { return __fmul_rn(a, b); }
__device__ inline float Sum(float a, float b) { return __fadd_rn(a, b); }

constexpr int kPart = kWideVec<float>;
using Part = float[kPart];

struct SgdParameters {
  SgdCoefficients k;
  int64_t count;
  float* parameters;
  const float* gradients;
  float* moments;  // null: no momentum
};

template <bool kAligned>
__global__ void __launch_bounds__(kBlockThreads)
    SgdKernel(const SgdParameters a) {
  for (int64_t j = FirstElement() * kPart; j < a.count;
       j += ElementStep() * kPart) {
    const int64_t left = a.count - j;
    Part p, g, m = {};
    LoadPart<kAligned>(a.parameters + j, left, 0.0f, p);
    LoadPart<kAligned>(a.gradients + j, left, 0.0f, g);
    if (a.moments != nullptr) {
      LoadPart<kAligned>(a.moments + j, left, 0.0f, m);
    }
#pragma unroll
    for (int i = 0; i < kPart; ++i) {
      g[i] =
          Sum(Times(a.k.gradient_scale, g[i]), Times(a.k.weight_decay, p[i]));
      m[i] = a.moments == nullptr ? g[i] : Sum(Times(a.k.momentum, m[i]), g[i]);
      p[i] = Sum(p[i], -Times(a.k.learning_rate, m[i]));
    }
    if (a.moments != nullptr) StorePart<kAligned>(m, left, a.moments + j);
    StorePart<kAligned>(p, left, a.parameters + j);
  }
}

struct AdamParameters {
  AdamCoefficients k;
  int64_t count;
  float* parameters;
  const float* gradients;
  float* first_moments;
  float* second_moments;
};

template <bool kAligned>
__global__ void __launch_bounds__(kBlockThreads)
    AdamKernel(const AdamParameters a) {
  const AdamCoefficients& k = a.k;
  for (int64_t j = FirstElement() * kPart; j < a.count;
       j += ElementStep() * kPart) {
    const int64_t left = a.count - j;
    Part p, g, m, v;
    LoadPart<kAligned>(a.parameters + j, left, 0.0f, p);
    LoadPart<kAligned>(a.gradients + j, left, 0.0f, g);
    LoadPart<kAligned>(a.first_moments + j, left, 0.0f, m);
    LoadPart<kAligned>(a.second_moments + j, left, 0.0f, v);
#pragma unroll
    for (int i = 0; i < kPart; ++i) {
      g[i] = Sum(Times(k.gradient_scale, g[i]), Times(k.l2, p[i]));
      m[i] = Sum(Times(k.beta1, m[i]), Times(k.one_minus_beta1, g[i]));
      v[i] = Sum(Times(k.beta2, v[i]),
                 Times(Times(k.one_minus_beta2, g[i]), g[i]));
      const float root = __fdiv_rn(__fsqrt_rn(v[i]), k.root_bias_correction);
      const float change =
          __fdiv_rn(Times(k.step_size, m[i]), Sum(root, k.epsilon));
      p[i] = Sum(Times(k.decay, p[i]), -change);
    }
    StorePart<kAligned>(m, left, a.first_moments + j);
    StorePart<kAligned>(v, left, a.second_moments + j);
    StorePart<kAligned>(p, left, a.parameters + j);
  }
}

}  // namespace

// --- Launchers ---

namespace {

cudaError_t UpdateSgd(const OptimizerArgs& args, bool wide, dim3 grid,
                      cudaStream_t stream) {
  float* moments = args.momentum == 0.0f ? nullptr : args.first_moment;
  const SgdParameters a = {SgdCoefficientsOf(args), args.count, args.parameters,
                           args.gradients, moments};
  return wide ? Launch<SgdKernel<true>>(grid, kBlockThreads, stream, a)
              : Launch<SgdKernel<false>>(grid, kBlockThreads, stream, a);
}

cudaError_t UpdateAdam(const OptimizerArgs& args, bool wide, dim3 grid,
                       cudaStream_t stream) {
  const AdamParameters a = {AdamCoefficientsOf(args), args.count,
                            args.parameters,          args.gradients,
                            args.first_moment,        args.second_moment};
  return wide ? Launch<AdamKernel<true>>(grid, kBlockThreads, stream, a)
              : Launch<AdamKernel<false>>(grid, kBlockThreads, stream, a);
}

}  // namespace

cudaError_t Update(const OptimizerArgs& args, cudaStream_t stream) {
  const bool wide = IsWide(args.parameters) && IsWide(args.gradients) &&
                    IsWide(args.first_moment) && IsWide(args.second_moment);
  const dim3 grid = GridOf(args.count, kBlockThreads * kPart);
  return args.kind == OptimizerKind::kSgd
             ? UpdateSgd(args, wide, grid, stream)
             : UpdateAdam(args, wide, grid, stream);
}

}  // namespace recurve::cuda
