// Arguments of one layer of each cell on random numbers, forwards and
// backwards.
#ifndef RECURVE_TESTS_GPU_LAYER_PROBLEM_H_
#define RECURVE_TESTS_GPU_LAYER_PROBLEM_H_

#include <cmath>
#include <cstdint>

#include "kernels/cell_args.h"
#include "tests/gpu/device_values.h"

namespace recurve::gpu {

// One direction, as many inputs as units: SRU with a skip of its input, QRNN
// with fo-pooling and a window of one row.
struct LayerSize {
  int64_t hidden_size = 0;    // H
  int64_t num_sequences = 0;  // B
  int64_t length = 0;         // T
  int64_t rows() const { return num_sequences * length; }
};

inline float WeightBound(const LayerSize& size) {
  return 1.0f / std::sqrt(static_cast<float>(size.hidden_size));
}

// What both cells have.
template <typename S, typename Args>
void MakeCommonArgs(const LayerSize& size, DeviceValues& values, Args& args) {
  const int64_t h = size.hidden_size, n = size.rows(), b = size.num_sequences;
  auto& forward = args.forward;
  forward.shape.input_size = forward.shape.hidden_size = h;
  const int64_t columns = forward.shape.projected_cols();
  forward.layout = values.EqualLengths(b, size.length);
  forward.weights.projection =
      values.template Random<S>(h, columns, WeightBound(size));
  forward.x = values.template Random<S>(n, h);
  forward.c_first = values.template Random<float>(b, h);
  forward.y = values.template Output<S>(n, h);
  forward.c_last = values.template Output<float>(b, h);
  forward.u = values.template Random<S>(n, columns);
  forward.c = values.template Random<float>(n, h);
  args.dy = values.template Random<S>(n, h);
  args.dx = values.template Output<S>(n, h);
  args.gradients.projection = values.template Output<float>(h, columns);
}

template <typename S>
SruBackwardArgs<S> MakeSruProblem(const LayerSize& size, DeviceValues& values) {
  const int64_t h = size.hidden_size;
  SruBackwardArgs<S> args;
  MakeCommonArgs<S>(size, values, args);
  const float bound = WeightBound(size);
  args.forward.weights.v = values.Random<float>(2, h, bound).data;
  args.forward.weights.bias = values.Random<float>(2, h, bound).data;
  args.gradients.v = values.Output<float>(2, h).data;
  args.gradients.bias = values.Output<float>(2, h).data;
  args.channel_partials = values.Output<float>(size.num_sequences, 4 * h);
  return args;
}

template <typename S>
QrnnBackwardArgs<S> MakeQrnnProblem(const LayerSize& size,
                                    DeviceValues& values) {
  QrnnBackwardArgs<S> args;
  MakeCommonArgs<S>(size, values, args);
  const int64_t columns = args.forward.shape.projected_cols();
  args.forward.weights.bias =
      values.Random<float>(1, columns, WeightBound(size)).data;
  args.gradients.bias = values.Output<float>(1, columns).data;
  args.channel_partials = values.Output<float>(size.num_sequences, columns);
  return args;
}

// Without what the backward pass alone reads.
template <typename Args>
Args ForInference(Args forward) {
  forward.c = {};
  return forward;
}

}  // namespace recurve::gpu

#endif  // RECURVE_TESTS_GPU_LAYER_PROBLEM_H_
