#include "kernels/cuda/conformance.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/backend.h"
#include "kernels/cuda/conformance_side.h"
#include "kernels/status.h"

namespace recurve::cuda {
namespace {

constexpr double kEpsilon = std::numeric_limits<float>::epsilon() / 2;

// Prepares an operation's arguments on a side, the same on each, and does it.
using Operation = std::function<absl::Status(Side&)>;

// What a tolerance, relative to the largest element of a result or to 1, is
// made of.
struct Arithmetic {
  int64_t depth = 1;      // terms of the longest chain of sums
  double stretch = 1.0;   // what an operation may multiply errors by
  bool products = false;  // factors have the products' precision
};

class Comparison {
 public:
  Comparison(Backend& backend, uint32_t seed, double product_precision)
      : backend_(backend),
        cpu_(CreateCpuBackend(1)),
        seed_(seed),
        product_precision_(product_precision) {}

  void Compare(const std::string& what, const Arithmetic& arithmetic,
               const Operation& operation) {
    const uint32_t seed = seed_++;
    Side expected(*cpu_, seed), actual(backend_, seed);
    ++conformance_.operations;
    for (Side* side : {&expected, &actual}) {
      if (const absl::Status status = operation(*side); !status.ok()) {
        return Fail(absl::StrCat(what, ": ", status.ToString()));
      }
    }
    const double tolerance = Tolerance(arithmetic);
    const std::vector<Result> want = expected.Results();
    const std::vector<Result> got = actual.Results();
    for (size_t i = 0; i < want.size(); ++i) {
      CompareResult(what, tolerance, want[i], got[i]);
    }
  }

  Conformance TakeConformance() { return std::move(conformance_); }

 private:
  // Four roundings a term; errors of factors average out over terms.
  double Tolerance(const Arithmetic& arithmetic) const {
    const double rounding = 4 * kEpsilon * (8 + arithmetic.depth);
    const double factors = arithmetic.products ? 8 * product_precision_ : 0.0;
    return arithmetic.stretch * (rounding + factors);
  }

  void CompareResult(const std::string& what, double tolerance,
                     const Result& want, const Result& got) {
    double largest = 1.0, worst = 0.0;
    size_t where = 0;
    for (size_t i = 0; i < want.values.size(); ++i) {
      const bool inside = static_cast<int64_t>(i) % want.stride < want.cols;
      if (inside && std::isfinite(want.values[i])) {
        largest = std::max(largest, std::abs(double{want.values[i]}));
      }
      const double difference = Difference(want.values[i], got.values[i]);
      if (difference > worst) worst = difference, where = i;
    }
    if (worst <= tolerance * largest) return;
    Fail(absl::StrCat(what, ": ", want.name, "[", where / want.stride, ", ",
                      where % want.stride, "] of ", want.cols, " columns is ",
                      got.values[where], ", not ", want.values[where],
                      "; tolerance ", tolerance * largest));
  }

  static double Difference(float a, float b) {
    if (a == b || (std::isnan(a) && std::isnan(b))) return 0.0;
    const double difference = std::abs(double{a} - double{b});
    return std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                  : difference;
  }

  void Fail(std::string failure) {
    conformance_.failures.push_back(std::move(failure));
  }

  Backend& backend_;
  const std::unique_ptr<Backend> cpu_;
  uint32_t seed_;
  const double product_precision_;
  Conformance conformance_;
};

// --- Shapes ---

// Lengths of a batch: none, one step, many, few long ones.
std::vector<std::vector<int64_t>> Batches() {
  return {{1}, {0, 3, 0}, {5, 1, 9, 2, 0}, {33, 64, 31}, {200}};
}

int64_t Longest(const std::vector<int64_t>& lengths) {
  return *std::max_element(lengths.begin(), lengths.end());
}

int64_t Sum(const std::vector<int64_t>& lengths) {
  int64_t sum = 0;
  for (int64_t length : lengths) sum += length;
  return sum;
}

std::string Words(const std::vector<int64_t>& lengths) {
  std::string words;
  for (int64_t length : lengths) absl::StrAppend(&words, " ", length);
  return words;
}

// --- SRU ---

SruForwardArgs<float> SruArgs(Side& side, const SruShape& shape,
                              const std::vector<int64_t>& lengths,
                              bool training) {
  SruForwardArgs<float> args;
  const SequenceLayout layout = side.Layout(lengths);
  const int64_t n = layout.num_rows, b = layout.num_sequences;
  const int64_t i = shape.input_size, c = shape.channels();
  const int64_t p = shape.projection_size, inner = p > 0 ? p : i;
  const auto scale = [](int64_t depth) {
    return 2.0f / std::sqrt(static_cast<float>(depth));
  };
  args.shape = shape;
  args.layout = layout;
  if (p > 0) args.weights.projection_in = side.Input(i, p, scale(i));
  args.weights.projection =
      side.Input(inner, shape.projected_cols(), scale(inner));
  if (side.Draw(2)) {
    args.weights.projection_bias = side.Vector(shape.projected_cols());
  }
  args.weights.v = side.Vector(2 * c);
  args.weights.bias = side.Vector(2 * c);
  args.x = side.Input(n, i);
  if (side.Draw(2)) args.mask_in = side.Mask(b, i, 1.25f);
  if (side.Draw(2)) args.mask_cell = side.Mask(b, c, 1.25f);
  if (side.Draw(2)) args.c_first = side.Input(b, c);
  args.y = side.Output("y", n, c);
  if (side.Draw(2)) args.c_last = side.Output("c_last", b, c);
  const bool before = shape.layer_norm == NormPlace::kBefore;
  if (before || args.mask_in) {
    args.projection_input = side.Output("projection_input", n, i);
  }
  if (p > 0) args.low_rank = side.Output("low_rank", n, p);
  // Backward puts its gradient there, which is compared then.
  args.u = side.Output("u", n, shape.projected_cols());
  if (training) args.c = side.Output("c", n, c);
  if (shape.layer_norm == NormPlace::kNone) return args;
  args.weights.norm_weight = side.Vector(before ? i : c, 2.0f);
  args.weights.norm_bias = side.Vector(before ? i : c);
  if (training) args.norm_statistics = side.Output("norm_statistics", n, 2);
  if (training && !before) args.norm_input = side.Output("norm_input", n, c);
  return args;
}

SruBackwardArgs<float> SruGradients(Side& side,
                                    const SruForwardArgs<float>& forward) {
  SruBackwardArgs<float> args;
  const SruShape& shape = forward.shape;
  const int64_t n = forward.layout.num_rows, b = forward.layout.num_sequences;
  const int64_t i = shape.input_size, c = shape.channels();
  const int64_t p = shape.projection_size, inner = p > 0 ? p : i;
  args.forward = forward;
  args.dy = side.Input(n, c);
  if (side.Draw(2)) args.dc_last = side.Input(b, c);
  if (side.Draw(4)) args.dx = side.Output("dx", n, i);
  if (side.Draw(2)) args.dc_first = side.Output("dc_first", b, c);
  auto& g = args.gradients;
  if (p > 0) g.projection_in = side.Output("dprojection_in", i, p);
  g.projection = side.Output("dprojection", inner, shape.projected_cols());
  if (forward.weights.projection_bias != nullptr) {
    g.projection_bias =
        side.OutputVector("dprojection_bias", shape.projected_cols());
  }
  if (side.Draw(4)) g.v = side.OutputVector("dv", 2 * c);
  g.bias = side.OutputVector("dbias", 2 * c);
  if (shape.layer_norm != NormPlace::kNone) {
    const int64_t size = shape.layer_norm == NormPlace::kBefore ? i : c;
    g.norm_weight = side.OutputVector("dnorm_weight", size);
    g.norm_bias = side.OutputVector("dnorm_bias", size);
  }
  args.dprojection_input = side.Scratch(n, i);
  if (p > 0) args.dlow_rank = side.Scratch(n, p);
  args.dnorm_input = side.Scratch(n, c);
  args.channel_partials = side.Scratch(b, 4 * c);
  return args;
}

std::vector<SruShape> SruShapes(int64_t hidden_size) {
  std::vector<SruShape> shapes;
  for (int bits = 0; bits < 144; ++bits) {
    SruShape shape;
    shape.hidden_size = hidden_size;
    shape.num_directions = 1 + bits % 2;
    shape.use_tanh = bits / 2 % 2;
    shape.has_step_coefficients = bits / 4 % 2;
    shape.projection_size = bits / 8 % 2 ? 1 + hidden_size / 2 : 0;
    shape.skip = static_cast<SruSkip>(bits / 16 % 3);
    shape.layer_norm = static_cast<NormPlace>(bits / 48);
    shape.skip_scale = 1.375f;
    shape.input_size =
        shape.skip == SruSkip::kInput ? shape.channels() : hidden_size + 2;
    shapes.push_back(shape);
  }
  return shapes;
}

std::string Words(const SruShape& s) {
  return absl::StrCat("SRU I ", s.input_size, " H ", s.hidden_size, " D ",
                      s.num_directions, " P ", s.projection_size, " skip ",
                      static_cast<int>(s.skip), " tanh ", s.use_tanh, " norm ",
                      static_cast<int>(s.layer_norm), " steps ",
                      s.has_step_coefficients, ", lengths");
}

void CompareSru(Comparison& comparison, const SruShape& shape,
                const std::vector<int64_t>& lengths) {
  const std::string what = absl::StrCat(Words(shape), Words(lengths));
  Arithmetic arithmetic;
  arithmetic.products = true;
  arithmetic.depth = Longest(lengths) + shape.input_size;
  // A norm divides by standard deviations, small ones among them.
  if (shape.layer_norm != NormPlace::kNone) arithmetic.stretch = 20.0;
  comparison.Compare(absl::StrCat("forward ", what), arithmetic,
                     [&](Side& side) {
                       return side.backend().SruForward(
                           SruArgs(side, shape, lengths, side.Draw(2)));
                     });
  arithmetic.depth = Sum(lengths) + shape.projected_cols();
  comparison.Compare(
      absl::StrCat("backward ", what), arithmetic,
      [&](Side& side) -> absl::Status {
        const auto forward = SruArgs(side, shape, lengths, /*training=*/true);
        RETURN_IF_ERROR(side.backend().SruForward(forward));
        return side.backend().SruBackward(SruGradients(side, forward));
      });
}

// --- QRNN ---

QrnnForwardArgs<float> QrnnArgs(Side& side, const QrnnShape& shape,
                                const std::vector<int64_t>& lengths,
                                bool training) {
  QrnnForwardArgs<float> args;
  const SequenceLayout layout = side.Layout(lengths);
  const int64_t n = layout.num_rows, b = layout.num_sequences;
  const int64_t i = shape.input_size, c = shape.channels();
  args.shape = shape;
  args.layout = layout;
  args.weights.projection =
      side.Input(shape.window * i, shape.projected_cols(),
                 2.0f / std::sqrt(static_cast<float>(shape.window * i)));
  args.weights.bias = side.Vector(shape.projected_cols());
  args.x = side.Input(n, i);
  if (shape.zoneout > 0 && side.Draw(2)) {
    args.zoneout_mask = side.Mask(n, c, 1.0f);
  }
  if (side.Draw(2)) args.c_first = side.Input(b, c);
  args.y = side.Output("y", n, c);
  if (side.Draw(2)) args.c_last = side.Output("c_last", b, c);
  args.u = side.Output("u", n, shape.projected_cols());
  if (training) args.c = side.Output("c", n, c);
  if (shape.window == 1) return args;
  args.window_rows =
      side.Output("window_rows", n, shape.num_directions * 2 * i);
  if (shape.num_directions == 2) return args;
  if (side.Draw(2)) args.x_previous = side.Changed("x_previous", b, i);
  if (side.Draw(2)) args.x_last = side.Output("x_last", b, i);
  return args;
}

QrnnBackwardArgs<float> QrnnGradients(Side& side,
                                      const QrnnForwardArgs<float>& forward) {
  QrnnBackwardArgs<float> args;
  const QrnnShape& shape = forward.shape;
  const int64_t n = forward.layout.num_rows, b = forward.layout.num_sequences;
  const int64_t i = shape.input_size, c = shape.channels();
  args.forward = forward;
  args.dy = side.Input(n, c);
  if (side.Draw(2)) args.dc_last = side.Input(b, c);
  if (side.Draw(4)) args.dx = side.Output("dx", n, i);
  if (side.Draw(2)) args.dc_first = side.Output("dc_first", b, c);
  args.gradients.projection =
      side.Output("dprojection", shape.window * i, shape.projected_cols());
  args.gradients.bias = side.OutputVector("dbias", shape.projected_cols());
  if (shape.window == 2) {
    args.dwindow_rows = side.Scratch(n, shape.num_directions * 2 * i);
  }
  args.channel_partials = side.Scratch(b, shape.projected_cols());
  return args;
}

void CompareQrnn(Comparison& comparison, const QrnnShape& shape,
                 const std::vector<int64_t>& lengths) {
  const std::string what =
      absl::StrCat("QRNN I ", shape.input_size, " H ", shape.hidden_size, " D ",
                   shape.num_directions, " window ", shape.window,
                   " output gate ", shape.output_gate, " zoneout ",
                   shape.zoneout, ", lengths", Words(lengths));
  Arithmetic arithmetic;
  arithmetic.products = true;
  arithmetic.depth = Longest(lengths) + shape.window * shape.input_size;
  comparison.Compare(absl::StrCat("forward ", what), arithmetic,
                     [&](Side& side) {
                       return side.backend().QrnnForward(
                           QrnnArgs(side, shape, lengths, side.Draw(2)));
                     });
  arithmetic.depth = Sum(lengths) + shape.projected_cols();
  comparison.Compare(
      absl::StrCat("backward ", what), arithmetic,
      [&](Side& side) -> absl::Status {
        const auto forward = QrnnArgs(side, shape, lengths, /*training=*/true);
        RETURN_IF_ERROR(side.backend().QrnnForward(forward));
        return side.backend().QrnnBackward(QrnnGradients(side, forward));
      });
}

void CompareAllQrnn(Comparison& comparison) {
  for (int bits = 0; bits < 16; ++bits) {
    QrnnShape shape;
    shape.num_directions = 1 + bits % 2;
    shape.window = 1 + bits / 2 % 2;
    shape.output_gate = bits / 4 % 2;
    shape.zoneout = bits / 8 ? 0.25f : 0.0f;
    for (const auto& lengths : Batches()) {
      shape.hidden_size = 8;
      shape.input_size = 12;
      CompareQrnn(comparison, shape, lengths);
    }
    shape.hidden_size = shape.input_size = 33;
    CompareQrnn(comparison, shape, {7, 0, 2});
  }
}

void CompareAllSru(Comparison& comparison) {
  const auto batches = Batches();
  size_t next = 0;
  for (int64_t hidden_size : {8, 33}) {
    for (const SruShape& shape : SruShapes(hidden_size)) {
      CompareSru(comparison, shape, batches[next++ % batches.size()]);
    }
  }
}

// --- Linear, embedding, pooling, losses ---

void CompareLinear(Comparison& comparison, int64_t n, int64_t i, int64_t o) {
  const std::string what = absl::StrCat("linear ", n, " x ", i, " to ", o);
  Arithmetic arithmetic;
  arithmetic.products = true;
  arithmetic.depth = i;
  comparison.Compare(what, arithmetic, [&](Side& side) {
    LinearForwardArgs<float> args;
    args.x = side.Input(n, i);
    args.weight = side.Input(o, i);
    if (side.Draw(2)) args.bias = side.Vector(o);
    args.y = side.Output("y", n, o);
    return side.backend().LinearForward(args);
  });
  arithmetic.depth = n + o;
  comparison.Compare(absl::StrCat("backward ", what), arithmetic,
                     [&](Side& side) {
                       LinearBackwardArgs<float> args;
                       args.x = side.Input(n, i);
                       args.weight = side.Input(o, i);
                       args.dy = side.Input(n, o);
                       if (side.Draw(2)) args.dx = side.Output("dx", n, i);
                       args.dweight = side.Changed("dweight", o, i);
                       if (side.Draw(2)) {
                         args.dbias = side.Changed("dbias", 1, o).data;
                       }
                       args.continues = side.Draw(2);
                       return side.backend().LinearBackward(args);
                     });
}

void CompareEmbedding(Comparison& comparison, int64_t n, int64_t v, int64_t e) {
  const std::string what =
      absl::StrCat("embedding of ", n, " tokens, ", v, " x ", e);
  comparison.Compare(what, {}, [&](Side& side) {
    EmbeddingForwardArgs<float> args;
    args.tokens = side.Upload(side.Draws(n, v));
    args.table = side.Input(v, e);
    args.y = side.Output("y", n, e);
    return side.backend().EmbeddingForward(args);
  });
  for (bool accumulate : {false, true}) {
    comparison.Compare(absl::StrCat("backward ", what), {.depth = n},
                       [&](Side& side) {
                         EmbeddingBackwardArgs<float> args;
                         args.tokens = side.Upload(side.Draws(n, v));
                         args.dy = side.Input(n, e);
                         args.dtable = side.Changed("dtable", v, e);
                         args.accumulate = accumulate;
                         return side.backend().EmbeddingBackward(args);
                       });
  }
}

void ComparePooling(Comparison& comparison, PoolKind kind,
                    const std::vector<int64_t>& lengths, int64_t c) {
  const int64_t b = static_cast<int64_t>(lengths.size()), n = Sum(lengths);
  comparison.Compare(
      absl::StrCat("pooling ", static_cast<int>(kind), " of", Words(lengths)),
      {}, [&](Side& side) -> absl::Status {
        PoolArgs<float> args;
        args.kind = kind;
        args.layout = side.Layout(lengths);
        args.x = side.Input(n, c);
        args.y = side.Output("y", b, c);
        if (kind == PoolKind::kMax) {
          args.argmax = {side.Upload(std::vector<int32_t>(b * c)), b, c};
        }
        RETURN_IF_ERROR(side.backend().PoolForward(args));
        args.dy = side.Input(b, c);
        args.dx = side.Output("dx", n, c);
        return side.backend().PoolBackward(args);
      });
}

// The carry begins as zeros and is compared after each part by what it gives.
void ComparePoolingInParts(Comparison& comparison, PoolKind kind,
                           const std::vector<int64_t>& lengths, int64_t c) {
  const int64_t b = static_cast<int64_t>(lengths.size()), n = Sum(lengths);
  comparison.Compare(
      absl::StrCat("pooling ", static_cast<int>(kind), " in parts of",
                   Words(lengths)),
      {}, [&](Side& side) -> absl::Status {
        PoolArgs<float> args;
        args.kind = kind;
        args.layout = side.Layout(lengths);
        args.carry.rows = {side.Upload(std::vector<int64_t>(b)), b, 1};
        args.carry.sums = {side.Upload(std::vector<double>(b * c)), b, c};
        args.carry.maxima = {side.Upload(std::vector<float>(b * c)), b, c};
        for (const char* name : {"y", "y of two parts", "y of three parts"}) {
          args.x = side.Input(n, c);
          args.y = side.Output(name, b, c);
          RETURN_IF_ERROR(side.backend().PoolForward(args));
        }
        return absl::OkStatus();
      });
}

void CompareCopies(Comparison& comparison, int64_t from_rows, int64_t to_rows,
                   int64_t cols) {
  comparison.Compare(
      absl::StrCat("copy of ", to_rows, " of ", from_rows, " rows of ", cols),
      {}, [&](Side& side) {
        CopyRowsArgs args;
        args.from = side.Input(from_rows, cols);
        args.from_rows = side.Upload(side.Draws(to_rows, from_rows));
        args.to = side.Changed("to", to_rows + 1, cols);
        std::vector<int32_t> places(to_rows);
        std::iota(places.rbegin(), places.rend(), 1);
        args.to_rows = side.Upload(places);
        args.count = to_rows;
        return side.backend().CopyRows(args);
      });
}

void CompareLosses(Comparison& comparison, int64_t rows, int64_t cols) {
  for (bool want_gradient : {false, true}) {
    const std::string what = absl::StrCat(rows, " x ", cols);
    comparison.Compare(
        absl::StrCat("cross entropy ", what), {.depth = 64}, [&](Side& side) {
          CrossEntropyArgs<float> args;
          args.logits = side.Changed("logits", rows, cols, 8.0f);
          std::vector<int32_t> targets = side.Draws(rows, cols);
          args.ignore_index = targets[0];
          args.targets = side.Upload(targets);
          if (side.Draw(2)) args.weights = side.Vector(rows);
          args.want_gradient = want_gradient;
          args.row_losses = side.OutputVector("row_losses", rows);
          return side.backend().CrossEntropy(args);
        });
    comparison.Compare(
        absl::StrCat("squared error ", what), {.depth = 64}, [&](Side& side) {
          SquaredErrorArgs<float> args;
          args.predictions = side.Changed("predictions", rows, cols);
          args.targets = side.Input(rows, cols);
          if (side.Draw(2)) args.weights = side.Vector(rows);
          args.want_gradient = want_gradient;
          args.row_losses = side.OutputVector("row_losses", rows);
          return side.backend().SquaredError(args);
        });
  }
  comparison.Compare(
      absl::StrCat("softmax ", rows, " x ", cols), {.depth = 64},
      [&](Side& side) {
        return side.backend().Softmax(side.Changed("logits", rows, cols, 8.0f));
      });
}

// --- Masks, sums, optimizers ---

void CompareMasks(Comparison& comparison, bool variational,
                  const std::vector<int64_t>& lengths, int64_t c) {
  comparison.Compare(
      absl::StrCat("mask, variational ", variational, ", of", Words(lengths)),
      {}, [&](Side& side) {
        MaskArgs args;
        args.key.seed = 17 + side.Draw(1000);
        args.keep_probability = 0.7f;
        args.scale = 1.0f / 0.7f;
        args.variational = variational;
        args.layout = side.Layout(lengths);
        args.first_sequence = side.Draw(100);
        const int64_t b = args.layout.num_sequences;
        if (side.Draw(2)) {
          std::vector<int64_t> positions(b);
          for (int64_t& position : positions) position = side.Draw(1000);
          args.positions = side.Upload(positions);
        }
        args.mask =
            side.Output("mask", variational ? b : args.layout.num_rows, c);
        return side.backend().FillMask(args);
      });
}

void CompareArithmetic(Comparison& comparison, int64_t count) {
  comparison.Compare(absl::StrCat("add ", count), {}, [&](Side& side) {
    float* to = side.Changed("sum", 1, count).data;
    return side.backend().Add(to, side.Vector(count), count);
  });
  comparison.Compare(absl::StrCat("multiply ", count), {}, [&](Side& side) {
    const Matrix<float> x = side.Changed("product", 3, count);
    return side.backend().Multiply(x, side.Input(3, count));
  });
  comparison.Compare(
      absl::StrCat("sum of squares of ", count), {},
      [&](Side& side) -> absl::Status {
        const float* data = side.Vector(count);
        float* result = side.OutputVector("sum", 1);
        ASSIGN_OR_RETURN(const double sum,
                         side.backend().SumOfSquares(data, count));
        const float rounded = static_cast<float>(sum);
        return side.backend().Upload(result, &rounded, sizeof(rounded));
      });
  comparison.Compare(absl::StrCat("zero and copy ", count), {},
                     [&](Side& side) -> absl::Status {
                       const int64_t bytes = count * sizeof(float);
                       float* zeroed = side.Changed("zeroed", 1, count).data;
                       float* copy = side.OutputVector("copy", count);
                       RETURN_IF_ERROR(side.backend().Zero(zeroed, bytes));
                       return side.backend().Copy(copy, side.Vector(count),
                                                  bytes);
                     });
}

void CompareUpdates(Comparison& comparison, OptimizerKind kind, float momentum,
                    int64_t count) {
  comparison.Compare(
      absl::StrCat("update ", static_cast<int>(kind), " of ", count), {},
      [&](Side& side) -> absl::Status {
        OptimizerArgs args;
        args.kind = kind;
        args.count = count;
        args.parameters = side.Changed("parameters", 1, count).data;
        args.gradients = side.Vector(count);
        args.first_moment = side.Changed("first_moment", 1, count).data;
        // Sums of squares are not negative.
        args.second_moment = side.Output("second_moment", 1, count).data;
        RETURN_IF_ERROR(
            side.backend().Zero(args.second_moment, count * sizeof(float)));
        args.gradient_scale = 0.5f;
        args.learning_rate = 0.01f;
        args.momentum = momentum;
        args.weight_decay = 0.1f;
        for (args.step = 1; args.step <= 3; ++args.step) {
          RETURN_IF_ERROR(side.backend().Update(args));
        }
        return absl::OkStatus();
      });
}

void CompareOthers(Comparison& comparison) {
  for (const auto& [n, i, o] : std::vector<std::array<int64_t, 3>>{
           {1, 1, 1}, {7, 12, 40}, {130, 33, 65}, {0, 4, 3}}) {
    CompareLinear(comparison, n, i, o);
  }
  CompareEmbedding(comparison, 40, 7, 12);
  CompareEmbedding(comparison, 300, 1500, 33);
  CompareCopies(comparison, 9, 5, 64);
  CompareCopies(comparison, 3, 300, 33);
  for (const auto& lengths : Batches()) {
    for (PoolKind kind : {PoolKind::kLast, PoolKind::kMean, PoolKind::kMax}) {
      ComparePooling(comparison, kind, lengths, 40);
      if (kind == PoolKind::kLast) continue;
      ComparePoolingInParts(comparison, kind, lengths, 40);
    }
    for (bool variational : {false, true}) {
      CompareMasks(comparison, variational, lengths, 37);
    }
  }
  for (const auto& [rows, cols] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {5, 33}, {3, 2100}}) {
    CompareLosses(comparison, rows, cols);
  }
  for (int64_t count : {1, 67, 9001}) {
    CompareArithmetic(comparison, count);
    CompareUpdates(comparison, OptimizerKind::kSgd, 0.0f, count);
    CompareUpdates(comparison, OptimizerKind::kSgd, 0.9f, count);
    CompareUpdates(comparison, OptimizerKind::kAdam, 0.0f, count);
    CompareUpdates(comparison, OptimizerKind::kAdamW, 0.0f, count);
  }
}

}  // namespace

Conformance CompareWithCpu(Backend& backend, uint32_t seed,
                           double product_precision) {
  Comparison comparison(backend, seed, product_precision);
  CompareAllSru(comparison);
  CompareAllQrnn(comparison);
  CompareOthers(comparison);
  return comparison.TakeConformance();
}

}  // namespace recurve::cuda
