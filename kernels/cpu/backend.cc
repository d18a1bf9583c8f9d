#include "kernels/cpu/backend.h"

#include <omp.h>

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/channel_groups.h"
#include "kernels/cpu/copy_rows.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/embedding.h"
#include "kernels/cpu/fused_layer.h"
#include "kernels/cpu/gemm_tile.h"
#include "kernels/cpu/layers.h"
#include "kernels/cpu/loss.h"
#include "kernels/cpu/mask.h"
#include "kernels/cpu/optimizer.h"
#include "kernels/cpu/packed_product.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/pool.h"
#include "kernels/precision.h"

namespace recurve {
namespace {

struct Free {
  void operator()(void* data) const { std::free(data); }
};
using Memory = std::unique_ptr<void, Free>;

class CpuBuffer : public DeviceBuffer {
 public:
  CpuBuffer(Memory memory, int64_t bytes)
      : memory_(std::move(memory)), bytes_(bytes) {}
  void* data() const override { return memory_.get(); }
  int64_t bytes() const override { return bytes_; }

 private:
  const Memory memory_;
  const int64_t bytes_;
};

// OpenMP's team size belongs to the calling thread, which devices of different
// sizes may share: it is set before each operation.
class Team {
 public:
  explicit Team(int num_threads) : num_threads_(num_threads) {
    assert(num_threads >= 1);
  }
  template <typename F>
  auto Run(const F& operation) const {
    omp_set_num_threads(num_threads_);
    return operation();
  }

 private:
  const int num_threads_;
};

class CpuBackend : public Backend {
 public:
  CpuBackend(int num_threads, Precision products)
      : team_(num_threads), products_(products) {
    // Now, not when the first piece of work comes a thread's way.
    team_.Run([] {
#pragma omp parallel
      {
        cpu::ThreadScratch();
        cpu::ReserveFusedScratch();
      }
    });
  }

  absl::StatusOr<std::unique_ptr<DeviceBuffer>> Allocate(
      int64_t bytes) override {
    if (bytes < 0) {
      return absl::InvalidArgumentError(absl::StrCat(bytes, " bytes"));
    }
    // aligned_alloc wants whole multiples, and none may be a null pointer.
    const int64_t units =
        std::max<int64_t>(1, (bytes + kAlignment - 1) / kAlignment);
    Memory memory(std::aligned_alloc(kAlignment, units * kAlignment));
    if (memory == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory for ", bytes, " bytes"));
    }
    return std::make_unique<CpuBuffer>(std::move(memory), bytes);
  }
  absl::Status Upload(void* device, const void* host, int64_t bytes) override {
    return Copy(device, host, bytes);
  }
  absl::Status Download(void* host, const void* device,
                        int64_t bytes) override {
    return Copy(host, device, bytes);
  }
  absl::Status Copy(void* to, const void* from, int64_t bytes) override {
    auto* const target = static_cast<std::byte*>(to);
    const auto* const source = static_cast<const std::byte*>(from);
    ForPieces(bytes, [&](int64_t begin, int64_t count) {
      std::memcpy(target + begin, source + begin, count);
    });
    return absl::OkStatus();
  }
  absl::Status Zero(void* data, int64_t bytes) override {
    auto* const target = static_cast<std::byte*>(data);
    ForPieces(bytes, [&](int64_t begin, int64_t count) {
      std::memset(target + begin, 0, count);
    });
    return absl::OkStatus();
  }
  absl::Status Synchronize() override { return absl::OkStatus(); }
  absl::Status Replay(std::unique_ptr<Recording>&,
                      absl::FunctionRef<absl::Status()> operations) override {
    return operations();
  }

  int64_t PackedBytes(const ProjectionShape& projection,
                      Precision precision) const override {
    return CpuPackedBytes(projection, precision);
  }
  absl::Status Pack(const ProjectionShape& projection, Precision precision,
                    Matrix<const float> weights, std::byte* to) override {
    if (precision != Precision::kFloat32 &&
        projection.depth > cpu::kMaxNarrowDepth) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a projection from ", projection.depth, " inputs: at most ",
          cpu::kMaxNarrowDepth, " at bf16 and int8; float32 has no limit"));
    }
    cpu::ChannelGroups(projection, precision).Pack(weights, to);
    return absl::OkStatus();
  }
  absl::Status SruForward(const SruForwardArgs<float>& args) override {
    return team_.Run([&] { return cpu::SruForward(args, products_); });
  }
  absl::Status SruBackward(const SruBackwardArgs<float>& args) override {
    return team_.Run([&] { return cpu::SruBackward(args, products_); });
  }
  absl::Status QrnnForward(const QrnnForwardArgs<float>& args) override {
    return team_.Run([&] { return cpu::QrnnForward(args, products_); });
  }
  absl::Status QrnnBackward(const QrnnBackwardArgs<float>& args) override {
    return team_.Run([&] { return cpu::QrnnBackward(args, products_); });
  }
  absl::Status LinearForward(const LinearForwardArgs<float>& args) override {
    return team_.Run([&] { return cpu::LinearForward(args, products_); });
  }
  absl::Status LinearBackward(const LinearBackwardArgs<float>& args) override {
    return team_.Run([&] { return cpu::LinearBackward(args, products_); });
  }
  absl::Status EmbeddingForward(
      const EmbeddingForwardArgs<float>& args) override {
    return team_.Run([&] { return cpu::EmbeddingForward(args); });
  }
  absl::Status EmbeddingBackward(
      const EmbeddingBackwardArgs<float>& args) override {
    return team_.Run([&] { return cpu::EmbeddingBackward(args); });
  }
  absl::Status PoolForward(const PoolArgs<float>& args) override {
    return team_.Run([&] { return cpu::PoolForward(args); });
  }
  absl::Status PoolBackward(const PoolArgs<float>& args) override {
    return team_.Run([&] { return cpu::PoolBackward(args); });
  }
  absl::Status CopyRows(const CopyRowsArgs& args) override {
    return team_.Run([&] { return cpu::CopyRows(args); });
  }
  absl::Status CrossEntropy(const CrossEntropyArgs<float>& args) override {
    return team_.Run([&] { return cpu::CrossEntropy(args); });
  }
  absl::Status SquaredError(const SquaredErrorArgs<float>& args) override {
    return team_.Run([&] { return cpu::SquaredError(args); });
  }
  absl::Status Softmax(Matrix<float> logits) override {
    return team_.Run([&] { return cpu::Softmax(logits); });
  }
  absl::Status FillMask(const MaskArgs& args) override {
    return team_.Run([&] { return cpu::FillMask(args); });
  }
  absl::Status Multiply(Matrix<float> x, Matrix<const float> mask) override {
    return team_.Run([&] { return cpu::Multiply(x, mask); });
  }
  absl::Status Add(float* to, const float* from, int64_t count) override {
    return team_.Run([&] { return cpu::Add(to, from, count); });
  }
  absl::StatusOr<double> SumOfSquares(const float* data,
                                      int64_t count) override {
    return team_.Run([&] { return cpu::SumOfSquares(data, count); });
  }
  absl::Status Update(const OptimizerArgs& args) override {
    return team_.Run([&] { return cpu::Update(args); });
  }

 private:
  // Memory is read and written by more than one core at a time.
  template <typename F>
  void ForPieces(int64_t bytes, const F& f) const {
    constexpr int64_t kPiece = 128 << 10;
    const int64_t pieces = (bytes + kPiece - 1) / kPiece;
    team_.Run([&] {
      cpu::ParallelFor(pieces, bytes / sizeof(float), [&](int64_t i) {
        f(i * kPiece, std::min(kPiece, bytes - i * kPiece));
      });
    });
  }

  const Team team_;
  const Precision products_;
};

}  // namespace

std::unique_ptr<Backend> CreateCpuBackend(int num_threads, Precision products) {
  return std::make_unique<CpuBackend>(num_threads, products);
}

int64_t CpuWorkspaceBytes(int num_threads) {
  return num_threads * (cpu::kGemmScratchBytes + cpu::kFusedScratchBytes);
}

int64_t CpuPackedBytes(const ProjectionShape& projection, Precision precision) {
  return cpu::ChannelGroups(projection, precision).packed_bytes();
}

}  // namespace recurve
