#include "kernels/cpu/reference_test_util.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

namespace recurve::cpu {
namespace {

using Row = std::vector<double>;

// Row `row` of a tensor with `cols` columns.
Row Slice(const std::vector<double>& tensor, int64_t row, int64_t cols) {
  return Row(tensor.begin() + row * cols, tensor.begin() + (row + 1) * cols);
}

const std::vector<double>* Find(const Tensors& tensors,
                                const std::string& name) {
  const auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

// tensors[name][i], or `missing`.
double At(const Tensors& tensors, const std::string& name, int64_t i,
          double missing) {
  const std::vector<double>* tensor = Find(tensors, name);
  return tensor ? tensor->at(i) : missing;
}

Row TimesMatrix(const Row& x, const std::vector<double>& w, int64_t cols) {
  Row y(cols, 0.0);
  for (size_t i = 0; i < x.size(); ++i) {
    for (int64_t j = 0; j < cols; ++j) y[j] += x[i] * w.at(i * cols + j);
  }
  return y;
}

Row LayerNorm(const Row& x, const Tensors& tensors) {
  double mean = 0, variance = 0;
  for (double value : x) mean += value / x.size();
  for (double value : x) variance += (value - mean) * (value - mean) / x.size();
  Row y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = (x[i] - mean) / std::sqrt(variance + 1e-5) *
               tensors.at("norm_weight")[i] +
           tensors.at("norm_bias")[i];
  }
  return y;
}

double Logistic(double x) { return 1 / (1 + std::exp(-x)); }

Row SruProjection(const SruShape& shape, const Tensors& tensors, int64_t b,
                  Row x) {
  if (shape.layer_norm == NormPlace::kBefore) x = LayerNorm(x, tensors);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] *= At(tensors, "mask_in", b * x.size() + i, 1.0);
  }
  if (shape.projection_size > 0) {
    x = TimesMatrix(x, tensors.at("projection_in"), shape.projection_size);
  }
  Row u = TimesMatrix(x, tensors.at("projection"), shape.projected_cols());
  for (size_t j = 0; j < u.size(); ++j) {
    u[j] += At(tensors, "projection_bias", j, 0.0);
  }
  return u;
}

// One row of one direction: c in and out, y out.
void SruStep(const SruShape& shape, const Tensors& tensors, int64_t b,
             int64_t direction, const Row& x, const Row& u, Row& c, Row& y) {
  const int64_t h = shape.hidden_size, channels = shape.channels();
  const int64_t groups = shape.gate_groups();
  const std::vector<double>& v = tensors.at("v");
  const std::vector<double>& bias = tensors.at("bias");
  for (int64_t j = 0; j < h; ++j) {
    const auto gate = [&](int64_t m) {
      return u[(direction * groups + m) * h + j];
    };
    const int64_t k = direction * h + j;
    double v_f = v[k], v_r = v[channels + k];
    if (shape.has_step_coefficients) {
      v_f += gate(groups - 2);
      v_r += gate(groups - 1);
    }
    const double p = c[k];
    const double f = Logistic(gate(1) + bias[k] + v_f * p);
    const double r = Logistic(gate(2) + bias[channels + k] + v_r * p);
    c[k] = f * p + (1 - f) * gate(0);
    const double g = shape.use_tanh ? std::tanh(c[k]) : c[k];
    double skip = 0;
    if (shape.skip == SruSkip::kInput) skip = shape.skip_scale * x[k];
    if (shape.skip == SruSkip::kTransform) skip = gate(3);
    const double mask = At(tensors, "mask_cell", b * channels + k, 1.0);
    y[k] = skip + (g - skip) * mask * r;
  }
}

// The rows of a sequence in the order in which a direction walks them.
std::vector<int64_t> Walk(const std::vector<int64_t>& cu, int64_t b,
                          int64_t direction) {
  std::vector<int64_t> rows;
  for (int64_t r = cu[b]; r < cu[b + 1]; ++r) rows.push_back(r);
  if (direction == 1) std::reverse(rows.begin(), rows.end());
  return rows;
}

Row FirstState(const Tensors& tensors, int64_t b, int64_t channels) {
  const std::vector<double>* c = Find(tensors, "c_first");
  return c ? Slice(*c, b, channels) : Row(channels, 0.0);
}

// The input of a QRNN direction's product at one row.
Row QrnnSource(const QrnnShape& shape, const std::vector<int64_t>& cu,
               const Tensors& tensors, int64_t b, int64_t direction,
               int64_t row) {
  const int64_t size = shape.input_size;
  const std::vector<double>& x = tensors.at("x");
  Row source = Slice(x, row, size);
  if (shape.window == 1) return source;
  const int64_t before = direction == 0 ? row - 1 : row + 1;
  Row previous(size, 0.0);
  if (before >= cu[b] && before < cu[b + 1]) {
    previous = Slice(x, before, size);
  } else if (direction == 0 && Find(tensors, "x_previous")) {
    previous = Slice(tensors.at("x_previous"), b, size);
  }
  source.insert(source.end(), previous.begin(), previous.end());
  return source;
}

void QrnnStep(const QrnnShape& shape, const Tensors& tensors, int64_t direction,
              int64_t row, const Row& u, Row& c, Row& y) {
  const int64_t h = shape.hidden_size, groups = shape.gate_groups();
  const std::vector<double>& bias = tensors.at("bias");
  for (int64_t j = 0; j < h; ++j) {
    const auto gate = [&](int64_t m) {
      const int64_t column = (direction * groups + m) * h + j;
      return u[column] + bias[column];
    };
    const int64_t k = direction * h + j;
    const double z = std::tanh(gate(0));
    const double i = Logistic(gate(1)) * At(tensors, "zoneout_mask",
                                            row * shape.channels() + k,
                                            1.0 - double{shape.zoneout});
    c[k] = i * z + (1 - i) * c[k];
    y[k] = shape.output_gate ? Logistic(gate(2)) * c[k] : c[k];
  }
}

}  // namespace

std::vector<double> RandomValues(int64_t count, uint32_t seed, double scale) {
  std::minstd_rand random(seed + 1);
  random.discard(3);
  std::vector<double> values(count);
  for (double& value : values) {
    value = static_cast<float>(scale * (random() % 20001 * 1e-4 - 1.0));
  }
  return values;
}

std::vector<int64_t> Offsets(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> cu = {0};
  for (int64_t length : lengths) cu.push_back(cu.back() + length);
  return cu;
}

ReferenceOutput ReferenceSru(const SruShape& shape,
                             const std::vector<int64_t>& cu,
                             const Tensors& tensors) {
  const int64_t channels = shape.channels();
  ReferenceOutput out;
  out.y.resize(cu.back() * channels);
  for (size_t b = 0; b + 1 < cu.size(); ++b) {
    Row c = FirstState(tensors, b, channels);
    for (int64_t direction = 0; direction < shape.num_directions; ++direction) {
      for (int64_t row : Walk(cu, b, direction)) {
        const Row x = Slice(tensors.at("x"), row, shape.input_size);
        const Row u = SruProjection(shape, tensors, b, x);
        Row y = Slice(out.y, row, channels);
        SruStep(shape, tensors, b, direction, x, u, c, y);
        std::copy(y.begin(), y.end(), out.y.begin() + row * channels);
      }
    }
    out.c_last.insert(out.c_last.end(), c.begin(), c.end());
  }
  if (shape.layer_norm != NormPlace::kAfter) return out;
  for (int64_t row = 0; row < cu.back(); ++row) {
    const Row y = LayerNorm(Slice(out.y, row, channels), tensors);
    std::copy(y.begin(), y.end(), out.y.begin() + row * channels);
  }
  return out;
}

ReferenceOutput ReferenceQrnn(const QrnnShape& shape,
                              const std::vector<int64_t>& cu,
                              const Tensors& tensors) {
  const int64_t channels = shape.channels(), size = shape.input_size;
  const std::vector<double>& w = tensors.at("projection");
  ReferenceOutput out;
  out.y.resize(cu.back() * channels);
  for (size_t b = 0; b + 1 < cu.size(); ++b) {
    Row c = FirstState(tensors, b, channels);
    for (int64_t direction = 0; direction < shape.num_directions; ++direction) {
      for (int64_t row : Walk(cu, b, direction)) {
        const Row source = QrnnSource(shape, cu, tensors, b, direction, row);
        const Row u = TimesMatrix(source, w, shape.projected_cols());
        Row y = Slice(out.y, row, channels);
        QrnnStep(shape, tensors, direction, row, u, c, y);
        std::copy(y.begin(), y.end(), out.y.begin() + row * channels);
      }
    }
    out.c_last.insert(out.c_last.end(), c.begin(), c.end());
    Row last(size, 0.0);
    if (Find(tensors, "x_previous")) {
      last = Slice(tensors.at("x_previous"), b, size);
    }
    if (cu[b] < cu[b + 1]) last = Slice(tensors.at("x"), cu[b + 1] - 1, size);
    out.x_last.insert(out.x_last.end(), last.begin(), last.end());
  }
  return out;
}

std::vector<double> NumericGradient(
    const std::function<double(const Tensors&)>& loss, Tensors tensors,
    const std::string& name, int64_t step) {
  constexpr double kDelta = 1e-5;
  std::vector<double>& values = tensors.at(name);
  std::vector<double> gradient;
  for (size_t i = 0; i < values.size(); i += step) {
    const double value = values[i];
    values[i] = value + kDelta;
    const double above = loss(tensors);
    values[i] = value - kDelta;
    const double below = loss(tensors);
    values[i] = value;
    gradient.push_back((above - below) / (2 * kDelta));
  }
  return gradient;
}

::testing::AssertionResult Near(const std::vector<float>& got,
                                const std::vector<double>& want,
                                double tolerance, int64_t step) {
  if (static_cast<int64_t>(want.size()) !=
      (static_cast<int64_t>(got.size()) + step - 1) / step) {
    return ::testing::AssertionFailure() << got.size() << " values by " << step
                                         << ", expected " << want.size();
  }
  double largest = 1.0, worst = 0.0;
  size_t at = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(want[i]));
    const double difference = std::abs(got[i * step] - want[i]);
    if (!(difference <= worst)) worst = difference, at = i;
  }
  if (worst <= tolerance * largest) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "worst at " << at * step << " of " << got.size() << ": "
         << got[at * step] << ", expected " << want[at] << "; relative error "
         << worst / largest << ", allowed " << tolerance;
}

::testing::AssertionResult SameBits(const std::vector<float>& a,
                                    const std::vector<float>& b) {
  if (a.size() != b.size()) {
    return ::testing::AssertionFailure()
           << a.size() << " and " << b.size() << " values";
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) {
      return ::testing::AssertionFailure()
             << "first difference at " << i << " of " << a.size() << ": "
             << a[i] << " and " << b[i];
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace recurve::cpu
