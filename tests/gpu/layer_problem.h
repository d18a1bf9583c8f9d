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

template <typename S>
SruBackwardArgs<S> MakeSruProblem(const LayerSize& size, DeviceValues& values) {
  const int64_t h = size.hidden_size, n = size.rows(), b = size.num_sequences;
  SruBackwardArgs<S> args;
  SruForwardArgs<S>& forward = args.forward;
  forward.shape.input_size = forward.shape.hidden_size = h;
  const int64_t columns = forward.shape.projected_cols();
  const float bound = 1.0f / std::sqrt(static_cast<float>(h));
  forward.layout = values.EqualLengths(b, size.length);
  forward.weights.projection = values.Random<S>(h, columns, bound);
  forward.weights.v = values.Random<float>(2, h, bound).data;
  forward.weights.bias = values.Random<float>(2, h, bound).data;
  forward.x = values.Random<S>(n, h);
  forward.c_first = values.Random<float>(b, h);
  forward.y = values.Output<S>(n, h);
  forward.c_last = values.Output<float>(b, h);
  forward.u = values.Random<S>(n, columns);
  forward.c = values.Random<float>(n, h);
  args.dy = values.Random<S>(n, h);
  args.dx = values.Output<S>(n, h);
  args.gradients.projection = values.Output<float>(h, columns);
  args.gradients.v = values.Output<float>(2, h).data;
  args.gradients.bias = values.Output<float>(2, h).data;
  args.channel_partials = values.Output<float>(b, 4 * h);
  return args;
}

template <typename S>
QrnnBackwardArgs<S> MakeQrnnProblem(const LayerSize& size,
                                    DeviceValues& values) {
  const int64_t h = size.hidden_size, n = size.rows(), b = size.num_sequences;
  QrnnBackwardArgs<S> args;
  QrnnForwardArgs<S>& forward = args.forward;
  forward.shape.input_size = forward.shape.hidden_size = h;
  const int64_t columns = forward.shape.projected_cols();
  const float bound = 1.0f / std::sqrt(static_cast<float>(h));
  forward.layout = values.EqualLengths(b, size.length);
  forward.weights.projection = values.Random<S>(h, columns, bound);
  forward.weights.bias = values.Random<float>(1, columns, bound).data;
  forward.x = values.Random<S>(n, h);
  forward.c_first = values.Random<float>(b, h);
  forward.y = values.Output<S>(n, h);
  forward.c_last = values.Output<float>(b, h);
  forward.u = values.Random<S>(n, columns);
  forward.c = values.Random<float>(n, h);
  args.dy = values.Random<S>(n, h);
  args.dx = values.Output<S>(n, h);
  args.gradients.projection = values.Output<float>(h, columns);
  args.gradients.bias = values.Output<float>(1, columns).data;
  args.channel_partials = values.Output<float>(b, columns);
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
