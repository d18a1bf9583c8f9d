// Products of rows with packed weights (kernels/cpu/packed_product.h) in each
// precision, beside MatMul in float32, on one thread. One round times all in
// turn, so that what disturbs the machine disturbs all alike; the figures are
// medians. Prints a Markdown table: GF/s of MatMul, then each precision's speed
// as a multiple of MatMul's.
//
//   packed_product_benchmark --benchmark_filter='tiles/.*'
//
// tiles: 4096 rows in tiles of 64, over groups of packed columns of at most
// 0.8 MB (packed once; each group walks over all rows, its product
// staying in one tile of memory), depth {512, 1024} x columns {1536, 3072}.
// MatMul computes the whole product.
// one_row: one row by four layers' weights, one after the other.

#include <omp.h>
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "hwy/aligned_allocator.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/packed_product.h"
#include "kernels/precision.h"
#include "kernels/tensor.h"

namespace recurve {
namespace {

constexpr Precision kPrecisions[] = {Precision::kFloat32, Precision::kBfloat16,
                                     Precision::kInt8};
constexpr const char* kNames[] = {"float32", "bf16", "int8"};
constexpr int64_t kTileRows = 64;
constexpr int64_t kPanelCols = 48;
constexpr int64_t kGroupBytes = 800'000;

// A matrix of random numbers and its memory.
struct Owned {
  Owned(int64_t rows, int64_t cols)
      : memory(hwy::AllocateAligned<float>(rows * cols)),
        matrix(memory.get(), rows, cols) {
    std::minstd_rand random(1);
    for (int64_t i = 0; i < rows * cols; ++i) {
      memory[i] = random() % 2001 * 1e-3f - 1.0f;
    }
  }

  hwy::AlignedFreeUniquePtr<float[]> memory;
  Matrix<float> matrix;
};

// All columns of a layer's weights, packed in groups.
class PackedLayer {
 public:
  PackedLayer(Precision precision, const Matrix<const float>& w,
              int64_t group_cols) {
    for (int64_t begin = 0; begin < w.cols; begin += group_cols) {
      const cpu::ColumnRange range{begin, std::min(group_cols, w.cols - begin)};
      memory_.push_back(hwy::AllocateAligned<std::byte>(
          cpu::PackedBytes(precision, w.rows, range.count)));
      groups_.push_back(cpu::Pack(precision, w, {range}, memory_.back().get()));
    }
  }

  const std::vector<cpu::PackedColumns>& groups() const { return groups_; }

 private:
  std::vector<hwy::AlignedFreeUniquePtr<std::byte[]>> memory_;
  std::vector<cpu::PackedColumns> groups_;
};

void Require(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::abort();
}

double SecondsOf(const std::function<void()>& work) {
  const auto now = [] {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
  };
  const double start = now();
  work();
  return now() - start;
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

// Times each piece of work in turn in each round.
void Compare(benchmark::State& state, double multiply_adds,
             const std::function<void()>& matmul,
             const std::function<void(int)>& packed) {
  std::vector<double> seconds[4];
  for (auto _ : state) {
    seconds[3].push_back(SecondsOf(matmul));
    for (int i = 0; i < 3; ++i) {
      seconds[i].push_back(SecondsOf([&] { packed(i); }));
    }
    state.SetIterationTime(seconds[3].back());
  }
  const double base = Median(seconds[3]);
  state.counters["matmul"] = 2e-9 * multiply_adds / base;
  for (int i = 0; i < 3; ++i) {
    state.counters[kNames[i]] = base / Median(seconds[i]);
  }
}

void RunTiles(benchmark::State& state, int64_t depth, int64_t cols) {
  constexpr int64_t kRows = 4096;
  const Owned x(kRows, depth), w(depth, cols), u(kRows, cols);
  const Owned tile(kTileRows, cols);
  std::vector<PackedLayer> layers;
  for (Precision precision : kPrecisions) {
    const int64_t panels =
        kGroupBytes / cpu::PackedBytes(precision, depth, kPanelCols);
    layers.emplace_back(precision, w.matrix, panels * kPanelCols);
  }
  Compare(
      state, 1.0 * kRows * depth * cols,
      [&] { Require(cpu::MatMul(x.matrix, w.matrix, u.matrix)); },
      [&](int i) {
        for (const cpu::PackedColumns& group : layers[i].groups()) {
          for (int64_t row = 0; row < kRows; row += kTileRows) {
            cpu::MultiplyPacked(x.matrix.row_range(row, kTileRows), group,
                                nullptr,
                                {tile.matrix.data, kTileRows, group.cols});
          }
        }
      });
}

void RunOneRow(benchmark::State& state, int64_t depth, int64_t cols) {
  constexpr int kLayers = 4;
  const Owned x(1, depth), u(1, cols);
  std::vector<Owned> weights;
  std::vector<PackedLayer> layers[3];
  for (int layer = 0; layer < kLayers; ++layer) {
    weights.emplace_back(depth, cols);
    for (int i = 0; i < 3; ++i) {
      layers[i].emplace_back(kPrecisions[i], weights.back().matrix, cols);
    }
  }
  Compare(
      state, 1.0 * kLayers * depth * cols,
      [&] {
        for (const Owned& w : weights) {
          Require(cpu::MatMul(x.matrix, w.matrix, u.matrix));
        }
      },
      [&](int i) {
        for (const PackedLayer& layer : layers[i]) {
          cpu::MultiplyPacked(x.matrix, layer.groups()[0], nullptr, u.matrix);
        }
      });
}

class MarkdownReporter : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override {
    std::printf(
        "| case | MatMul, GF/s | packed float32 | bf16 | int8 |\n"
        "| --- | --- | --- | --- | --- |\n");
    return true;
  }

  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      const auto value = [&](const char* name) {
        return run.counters.at(name).value;
      };
      std::printf("| %s | %.1f | %.2f | %.2f | %.2f |\n",
                  run.run_name.function_name.c_str(), value("matmul"),
                  value("float32"), value("bf16"), value("int8"));
      std::fflush(stdout);
    }
  }
};

void RegisterCases() {
  for (const int64_t depth : {512, 1024}) {
    for (const int64_t cols : {1536, 3072}) {
      const std::string size = absl::StrCat("/depth:", depth, "/cols:", cols);
      for (const auto& [name, run] :
           {std::pair{"tiles", &RunTiles}, std::pair{"one_row", &RunOneRow}}) {
        benchmark::RegisterBenchmark(
            absl::StrCat(name, size).c_str(),
            [run = run, depth, cols](benchmark::State& state) {
              run(state, depth, cols);
            })
            ->UseManualTime();
      }
    }
  }
}

}  // namespace
}  // namespace recurve

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  omp_set_num_threads(1);
  recurve::RegisterCases();
  recurve::MarkdownReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  return 0;
}
