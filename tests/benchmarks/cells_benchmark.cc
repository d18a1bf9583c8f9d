// Rows per second of one layer, forward (as at inference) and training step
// (forward with saved buffers, then backward), beside its matrix products
// alone: ours, ours by packed weights (forward only) and oneDNN's sgemm of the
// same shapes. One round times all of them in turn; the figures are medians
// over the rounds, so that what disturbs the machine disturbs all alike. Prints
// a Markdown table.
//
//   cells_benchmark --threads=1 --benchmark_filter='SRU/.*/H:512/B:32'
//
// Cases: {SRU, QRNN} x {forward, step} x H {256, 512, 1024} x B {1, 16, 32} x
// T {32, 128, 512}; forward also long (B 1, T 8192), wide (B 256, T 128), one
// step (T 1) and through a stack of four layers (L 4). Input size = H, SRU with
// its input as skip term, QRNN with window 1 and output gate.

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "hwy/aligned_allocator.h"
#include "kernels/backend.h"
#include "kernels/cell_args.h"
#include "kernels/cpu/backend.h"
#include "kernels/cpu/channel_groups.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/packed_product.h"
#include "kernels/precision.h"
#include "kernels/product.h"
#include "kernels/tensor.h"

ABSL_FLAG(int, threads, 1, "Threads of the CPU device.");
ABSL_FLAG(std::string, products, "fp32",
          "How the CPU device multiplies: fp32 or bf16. oneDNN's products stay "
          "float32.");
ABSL_FLAG(bool, cpu_time, false,
          "Count the calling thread's processor time instead of wall time: "
          "less disturbed on a busy machine, meaningful with one thread.");

namespace recurve {
namespace {

Precision ProductPrecision() {
  return absl::GetFlag(FLAGS_products) == "bf16" ? Precision::kBfloat16
                                                 : Precision::kFloat32;
}

struct Case {
  std::string cell;  // "SRU" or "QRNN"
  bool training = false;
  int64_t hidden_size = 0;
  int64_t batch = 0;
  int64_t steps = 0;
  int64_t layers = 1;

  int64_t rows() const { return batch * steps; }
  std::string Name() const {
    return absl::StrCat(cell, "/", training ? "step" : "forward",
                        "/H:", hidden_size, "/B:", batch, "/T:", steps,
                        layers > 1 ? absl::StrCat("/L:", layers) : "");
  }
};

// A case's buffers, and what is timed.
class Layer {
 public:
  virtual ~Layer() = default;
  virtual void Run(Backend& backend) = 0;

  // By the weights as forward has them, packed; forward alone.
  void PackedProducts() {
    const cpu::ChannelGroups groups(projection_, Precision::kFloat32);
    const int64_t blocks = std::max<int64_t>(1, x_.rows / 256);
    for (int64_t l = 0; l < layers_; ++l) {
#pragma omp parallel for schedule(dynamic)
      for (int64_t i = 0; i < groups.count() * blocks; ++i) {
        const int64_t begin = i % blocks * x_.rows / blocks;
        const int64_t rows = (i % blocks + 1) * x_.rows / blocks - begin;
        const cpu::PackedColumns columns =
            groups.Columns(packed_[l].data, i / blocks);
        const int64_t first =
            groups.group(i / blocks).unit * projection_.gate_groups;
        cpu::MultiplyPacked(
            x_.row_range(begin, rows), columns, nullptr,
            u_.row_range(begin, rows).columns(first, columns.cols));
      }
    }
  }

  void Products() {
    for (int64_t l = 0; l < layers_; ++l) Multiply(x_, w(l), u_);
    if (!training_) return;
    Multiply(Transposed(x_), u_, dw_);
    Multiply(u_, Transposed(w_), dx_);
  }

  void OneDnnProducts() {
    const int64_t n = x_.rows, i = x_.cols, k = u_.cols;
    for (int64_t l = 0; l < layers_; ++l) {
      dnnl_sgemm('N', 'N', n, k, i, 1, x_.data, i, w(l).data, k, 0, u_.data, k);
    }
    if (!training_) return;
    dnnl_sgemm('T', 'N', i, k, n, 1, x_.data, i, u_.data, k, 0, dw_.data, k);
    dnnl_sgemm('N', 'T', n, i, k, 1, u_.data, k, w_.data, k, 0, dx_.data, i);
  }

 protected:
  Layer(const Case& c, int64_t gate_groups)
      : training_(c.training),
        layers_(c.layers),
        projection_{c.hidden_size, gate_groups, c.hidden_size} {
    const int64_t n = c.rows(), h = c.hidden_size, k = gate_groups * h;
    for (int64_t b = 0; b <= c.batch; ++b) cu_seqlens_.push_back(b * c.steps);
    layout_ = {c.batch, n, cu_seqlens_.data()};
    x_ = New(n, h);
    w_ = New(c.layers * h, k);
    u_ = New(n, k);
    y_ = New(n, h);
    z_ = New(n, h);
    coefficients_ = New(4, k);
    if (!training_) Pack();
    if (!training_) return;
    c_ = New(n, h);
    dy_ = New(n, h);
    dx_ = New(n, h);
    dw_ = New(h, k);
    dcoefficients_ = New(4, k);
    partials_ = New(c.batch, 4 * h);
  }

  static void Multiply(const Factor<float>& a, const Factor<float>& b,
                       Matrix<float> c) {
    Check(cpu::MatMul(a, b, c, Destination::kOverwrite, ProductPrecision()));
  }

  static void Check(const absl::Status& status) {
    if (status.ok()) return;
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::abort();
  }

  Matrix<float> New(int64_t rows, int64_t cols) {
    buffers_.emplace_back(rows * cols);
    std::minstd_rand random(buffers_.size());
    for (float& value : buffers_.back()) {
      value = (random() % 2001 * 1e-3f - 1.0f) * 0.1f;
    }
    return {buffers_.back().data(), rows, cols};
  }

  // Runs forward(args) for each layer, whose input is the last one's output.
  template <typename Args, typename F>
  void Stack(Args args, const F& forward) {
    for (int64_t l = 0; l < layers_; ++l) {
      args.weights.projection = w(l);
      if (!training_) args.weights.packed = packed_[l];
      forward(args);
      args.x = args.y;
      args.y = args.y.data == y_.data ? z_ : y_;
    }
  }

  Matrix<float> w(int64_t l) const {
    return w_.row_range(l * x_.cols, x_.cols);
  }

  void Pack() {
    const cpu::ChannelGroups groups(projection_, Precision::kFloat32);
    for (int64_t l = 0; l < layers_; ++l) {
      packed_memory_.push_back(
          hwy::AllocateAligned<std::byte>(groups.packed_bytes()));
      groups.Pack(w(l), packed_memory_.back().get());
      packed_.push_back({Precision::kFloat32, packed_memory_.back().get()});
    }
  }

  const bool training_;
  const int64_t layers_;
  const ProjectionShape projection_;
  std::vector<std::vector<float>> buffers_;
  std::vector<hwy::AlignedFreeUniquePtr<std::byte[]>> packed_memory_;
  std::vector<PackedProjection> packed_;  // of each layer; forward
  std::vector<int64_t> cu_seqlens_;
  SequenceLayout layout_;
  Matrix<float> x_, w_, u_, y_, z_, coefficients_;
  Matrix<float> c_, dy_, dx_, dw_, dcoefficients_, partials_;
};

class SruLayer : public Layer {
 public:
  explicit SruLayer(const Case& c) : Layer(c, 3) {
    SruForwardArgs<float>& forward = args_.forward;
    forward.shape.input_size = forward.shape.hidden_size = c.hidden_size;
    forward.layout = layout_;
    forward.weights.projection = w(0);
    forward.weights.v = coefficients_.row(0);
    forward.weights.bias = coefficients_.row(1);
    forward.x = x_;
    forward.y = y_;
    forward.u = u_;
    forward.c = c_;
    args_.dy = dy_;
    args_.dx = dx_;
    args_.gradients.projection = dw_;
    args_.channel_partials = partials_;
    if (!training_) return;
    args_.gradients.v = dcoefficients_.row(0);
    args_.gradients.bias = dcoefficients_.row(1);
  }

  void Run(Backend& backend) override {
    Stack(args_.forward,
          [&](const auto& args) { Check(backend.SruForward(args)); });
    if (training_) Check(backend.SruBackward(args_));
  }

 private:
  SruBackwardArgs<float> args_;
};

class QrnnLayer : public Layer {
 public:
  explicit QrnnLayer(const Case& c) : Layer(c, 3) {
    QrnnForwardArgs<float>& forward = args_.forward;
    forward.shape.input_size = forward.shape.hidden_size = c.hidden_size;
    forward.layout = layout_;
    forward.weights.projection = w(0);
    forward.weights.bias = coefficients_.row(0);
    forward.x = x_;
    forward.y = y_;
    forward.u = u_;
    forward.c = c_;
    args_.dy = dy_;
    args_.dx = dx_;
    args_.gradients.projection = dw_;
    if (!training_) return;
    args_.channel_partials = partials_.columns(0, 3 * c.hidden_size);
    args_.gradients.bias = dcoefficients_.row(0);
  }

  void Run(Backend& backend) override {
    Stack(args_.forward,
          [&](const auto& args) { Check(backend.QrnnForward(args)); });
    if (training_) Check(backend.QrnnBackward(args_));
  }

 private:
  QrnnBackwardArgs<float> args_;
};

std::unique_ptr<Layer> MakeLayer(const Case& c) {
  if (c.cell == "SRU") return std::make_unique<SruLayer>(c);
  return std::make_unique<QrnnLayer>(c);
}

double Now() {
  timespec now;
  clock_gettime(
      absl::GetFlag(FLAGS_cpu_time) ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC,
      &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

double SecondsOf(const std::function<void()>& work) {
  const double start = Now();
  work();
  return Now() - start;
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

void RunCase(benchmark::State& state, const Case& c) {
  const int threads = absl::GetFlag(FLAGS_threads);
  const std::unique_ptr<Backend> backend =
      CreateCpuBackend(threads, ProductPrecision());
  omp_set_num_threads(threads);
  const std::unique_ptr<Layer> layer = MakeLayer(c);
  std::vector<double> layer_s, products_s, packed_s, onednn_s;
  for (auto _ : state) {
    layer_s.push_back(SecondsOf([&] { layer->Run(*backend); }));
    products_s.push_back(SecondsOf([&] { layer->Products(); }));
    packed_s.push_back(
        c.training ? 0 : SecondsOf([&] { layer->PackedProducts(); }));
    onednn_s.push_back(SecondsOf([&] { layer->OneDnnProducts(); }));
    state.SetIterationTime(layer_s.back());
  }
  state.counters["rows"] = c.rows();
  state.counters["layer_s"] = Median(layer_s);
  state.counters["products_s"] = Median(products_s);
  state.counters["packed_s"] = Median(packed_s);
  state.counters["onednn_s"] = Median(onednn_s);
}

class MarkdownReporter : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override {
    std::printf(
        "| case | rows/s | layer, ms | products alone, ms | share | by packed "
        "weights, ms | share | oneDNN's products, ms | share |\n"
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    return true;
  }

  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      const auto value = [&](const char* name) {
        return run.counters.at(name).value;
      };
      const double layer = value("layer_s");
      std::printf(
          "| %s | %.0f | %.3f | %.3f | %.2f | %.3f | %.2f | %.3f | %.2f |\n",
          run.run_name.function_name.c_str(), value("rows") / layer,
          layer * 1e3, value("products_s") * 1e3, value("products_s") / layer,
          value("packed_s") * 1e3, value("packed_s") / layer,
          value("onednn_s") * 1e3, value("onednn_s") / layer);
      std::fflush(stdout);
    }
  }
};

void Register(const Case& c) {
  benchmark::RegisterBenchmark(c.Name().c_str(), [c](benchmark::State& state) {
    RunCase(state, c);
  })->UseManualTime();
}

void RegisterCases() {
  for (const char* cell : {"SRU", "QRNN"}) {
    for (const int64_t hidden_size : {256, 512, 1024}) {
      for (const bool training : {false, true}) {
        for (const int64_t batch : {1, 16, 32}) {
          for (const int64_t steps : {32, 128, 512}) {
            Register({cell, training, hidden_size, batch, steps});
          }
        }
      }
      Register({cell, false, hidden_size, 1, 8192});
      Register({cell, false, hidden_size, 256, 128});
      for (const int64_t batch : {1, 8, 64}) {
        Register({cell, false, hidden_size, batch, 1, 4});
      }
      Register({cell, false, hidden_size, 1, 128, 4});
    }
  }
}

}  // namespace
}  // namespace recurve

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  absl::ParseCommandLine(argc, argv);
  recurve::RegisterCases();
  recurve::MarkdownReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  return 0;
}
