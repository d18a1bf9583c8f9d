// Times on a GPU, one JSON object a line, for report.py: what the memory and
// the products reach, the recurrences by themselves, layers and training steps.
//
//   benchmark --ordinal=0 [--quick]
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/portable.h"
#include "kernels/cuda/qrnn.h"
#include "kernels/cuda/sru.h"
#include "kernels/cuda/status.h"
#include "kernels/status.h"
#include "kernels/storage.h"
#include "nlohmann/json.hpp"
#include "tests/gpu/device_values.h"
#include "tests/gpu/layer_problem.h"
#include "tests/gpu/measure.h"

ABSL_FLAG(int, ordinal, 0, "the GPU");
ABSL_FLAG(bool, quick, false, "a few cases of each kind");
ABSL_FLAG(bool, tiny, false, "shapes too small to say anything, for a test");

namespace recurve::gpu {
namespace {

using cuda::ProductPrecision;
using nlohmann::json;

struct Precision {
  const char* name;
  ProductPrecision value;
};
constexpr Precision kPrecisions[] = {{"fp32", ProductPrecision::kFp32},
                                     {"tf32", ProductPrecision::kTf32},
                                     {"bf16", ProductPrecision::kBf16}};

// --- Clocks ---

// By CUDA events on the stream that the work is issued to.
class EventClock {
 public:
  explicit EventClock(cudaStream_t stream) : stream_(stream) {
    cudaEventCreate(&begin_);
    cudaEventCreate(&end_);
  }
  ~EventClock() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }

  Work Around(std::function<absl::Status()> issue) {
    return {
        std::move(issue),
        [this] {
          return cuda::ToStatus(cudaEventRecord(begin_, stream_),
                                "cudaEventRecord");
        },
        [this]() -> absl::StatusOr<double> {
          RETURN_IF_ERROR(cuda::ToStatus(cudaEventRecord(end_, stream_),
                                         "cudaEventRecord"));
          RETURN_IF_ERROR(cuda::ToStatus(cudaEventSynchronize(end_),
                                         "cudaEventSynchronize"));
          float ms = 0;
          RETURN_IF_ERROR(cuda::ToStatus(
              cudaEventElapsedTime(&ms, begin_, end_), "cudaEventElapsedTime"));
          return ms;
        }};
  }

 private:
  const cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

// A backend's stream is its own: the host's clock, until the backend has done
// all of a sample's turns, which it replays as the engine does.
class BackendClock {
 public:
  explicit BackendClock(Backend& backend) : backend_(backend) {}

  Work Around(std::function<absl::Status()> operations) {
    recording_.reset();
    return {
        [this, operations] { return backend_.Replay(recording_, operations); },
        [this] {
          start_ = std::chrono::steady_clock::now();
          return absl::OkStatus();
        },
        [this]() -> absl::StatusOr<double> {
          RETURN_IF_ERROR(backend_.Synchronize());
          return std::chrono::duration<double, std::milli>(
                     std::chrono::steady_clock::now() - start_)
              .count();
        }};
  }

 private:
  Backend& backend_;
  std::unique_ptr<Recording> recording_;
  std::chrono::steady_clock::time_point start_;
};

// --- Cases ---

absl::Status Print(json line, const Work& work) {
  ASSIGN_OR_RETURN(const Timing timing, Measure(work));
  line["us"] = timing.median_us;
  line["us_min"] = timing.min_us;
  line["us_max"] = timing.max_us;
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
  return absl::OkStatus();
}

json Line(const char* what, const char* cell, const LayerSize& size) {
  return {{"what", what},
          {"cell", cell},
          {"hidden_size", size.hidden_size},
          {"batch", size.num_sequences},
          {"length", size.length}};
}

absl::Status CopyBandwidth(Backend& backend, cudaStream_t stream) {
  const int64_t floats = int64_t{1} << (absl::GetFlag(FLAGS_tiny) ? 10 : 28);
  DeviceValues values(backend);
  const Matrix<float> from = values.Random<float>(1, floats);
  const Matrix<float> to = values.Output<float>(1, floats);
  RETURN_IF_ERROR(values.status());
  RETURN_IF_ERROR(backend.Synchronize());
  const int64_t bytes = floats * int64_t{sizeof(float)};
  EventClock clock(stream);
  return Print({{"what", "copy"}, {"bytes", 2 * bytes}}, clock.Around([&] {
    return cuda::ToStatus(cudaMemcpyAsync(to.data, from.data, bytes,
                                          cudaMemcpyDeviceToDevice, stream),
                          "cudaMemcpyAsync");
  }));
}

// What the products alone reach on a square large enough to be bound by them.
absl::Status ProductRate(Backend& backend, const char* precision) {
  const int64_t side = absl::GetFlag(FLAGS_tiny) ? 32 : 8192;
  DeviceValues values(backend);
  LinearForwardArgs<float> args;
  args.x = values.Random<float>(side, side);
  args.weight = values.Random<float>(side, side);
  args.y = values.Output<float>(side, side);
  RETURN_IF_ERROR(values.status());
  BackendClock clock(backend);
  return Print({{"what", "product"},
                {"products", precision},
                {"flops", 2 * side * side * side}},
               clock.Around([&] { return backend.LinearForward(args); }));
}

// The operations of both cells under one name.
template <typename S>
cudaError_t Recur(const SruForwardArgs<S>& args, cudaStream_t stream) {
  return cuda::SruRecurrence(args, args.y, stream);
}
template <typename S>
cudaError_t Recur(const QrnnForwardArgs<S>& args, cudaStream_t stream) {
  return cuda::QrnnRecurrence(args, stream);
}
template <typename S>
cudaError_t RecurBackward(const SruBackwardArgs<S>& args, cudaStream_t stream) {
  return cuda::SruRecurrenceBackward(args, args.dy, stream);
}
template <typename S>
cudaError_t RecurBackward(const QrnnBackwardArgs<S>& args,
                          cudaStream_t stream) {
  return cuda::QrnnRecurrenceBackward(args, stream);
}
absl::Status Forward(Backend& backend, const SruForwardArgs<float>& args) {
  return backend.SruForward(args);
}
absl::Status Forward(Backend& backend, const QrnnForwardArgs<float>& args) {
  return backend.QrnnForward(args);
}
absl::Status Backward(Backend& backend, const SruBackwardArgs<float>& args) {
  return backend.SruBackward(args);
}
absl::Status Backward(Backend& backend, const QrnnBackwardArgs<float>& args) {
  return backend.QrnnBackward(args);
}

// Without the products, on a stream whose device has the arguments ready.
template <typename Args>
absl::Status Recurrences(const Args& args, json line, cudaStream_t stream) {
  EventClock clock(stream);
  for (const bool training : {false, true}) {
    line["pass"] = training ? "forward, training" : "forward";
    const auto forward = training ? args.forward : ForInference(args.forward);
    RETURN_IF_ERROR(Print(line, clock.Around([&] {
      return cuda::ToStatus(Recur(forward, stream), "Recur");
    })));
  }
  line["pass"] = "backward";
  return Print(line, clock.Around([&] {
    return cuda::ToStatus(RecurBackward(args, stream), "RecurBackward");
  }));
}

template <typename S>
absl::Status RecurrencesOfBothCells(Backend& backend, cudaStream_t stream,
                                    const char* storage,
                                    const LayerSize& size) {
  DeviceValues values(backend);
  const SruBackwardArgs<S> sru = MakeSruProblem<S>(size, values);
  const QrnnBackwardArgs<S> qrnn = MakeQrnnProblem<S>(size, values);
  RETURN_IF_ERROR(values.status());
  RETURN_IF_ERROR(backend.Synchronize());
  for (const char* cell : {"sru", "qrnn"}) {
    json line = Line("recurrence", cell, size);
    line["storage"] = storage;
    RETURN_IF_ERROR(std::string(cell) == "sru"
                        ? Recurrences(sru, line, stream)
                        : Recurrences(qrnn, line, stream));
  }
  return absl::OkStatus();
}

// A whole layer, as the engine runs it.
template <typename Args>
absl::Status Layers(Backend& backend, const Args& args, json line) {
  BackendClock clock(backend);
  line["pass"] = "forward";
  RETURN_IF_ERROR(Print(line, clock.Around([&] {
    return Forward(backend, ForInference(args.forward));
  })));
  line["pass"] = "step";
  return Print(line, clock.Around([&]() -> absl::Status {
    RETURN_IF_ERROR(Forward(backend, args.forward));
    return Backward(backend, args);
  }));
}

absl::Status SruLayers(Backend& backend, const char* precision,
                       const LayerSize& size) {
  DeviceValues values(backend);
  const SruBackwardArgs<float> args = MakeSruProblem<float>(size, values);
  RETURN_IF_ERROR(values.status());
  json line = Line("layer", "sru", size);
  line["products"] = precision;
  return Layers(backend, args, line);
}

absl::Status QrnnLayers(Backend& backend, const char* precision,
                        const LayerSize& size) {
  DeviceValues values(backend);
  const QrnnBackwardArgs<float> args = MakeQrnnProblem<float>(size, values);
  RETURN_IF_ERROR(values.status());
  json line = Line("layer", "qrnn", size);
  line["products"] = precision;
  return Layers(backend, args, line);
}

// --- The run ---

// SRU's published training shape is the first; the others grow from it.
std::vector<LayerSize> SruSizes() {
  if (absl::GetFlag(FLAGS_tiny)) return {{12, 3, 5}};
  return {{512, 32, 128}, {1024, 32, 128}, {2048, 32, 128},
          {512, 1, 128},  {512, 1, 1},     {512, 64, 1}};
}

std::vector<LayerSize> QrnnSizes(bool quick) {
  if (absl::GetFlag(FLAGS_tiny)) return {{12, 3, 5}};
  std::vector<LayerSize> sizes = {
      {512, 32, 128}, {1024, 32, 128}, {2048, 32, 128}};
  if (quick) return sizes;
  // The published table against cuDNN's LSTM.
  for (const int64_t batch : {8, 16, 32, 64, 128, 256}) {
    for (const int64_t length : {32, 64, 128, 256, 512}) {
      sizes.push_back({320, batch, length});
    }
  }
  return sizes;
}

// All move over 100 MB a launch but the last, which are few long sequences.
std::vector<LayerSize> RecurrenceSizes(bool quick) {
  if (absl::GetFlag(FLAGS_tiny)) return {{12, 3, 5}, {33, 1, 70}};
  if (quick) return {{1024, 64, 256}, {512, 1, 8192}};
  return {{512, 128, 256},
          {1024, 64, 256},
          {2048, 32, 256},
          {512, 1, 8192},
          {320, 8, 512}};
}

absl::Status RunRecurrences(Backend& backend, cudaStream_t stream) {
  for (const LayerSize& size : RecurrenceSizes(absl::GetFlag(FLAGS_quick))) {
    RETURN_IF_ERROR(
        RecurrencesOfBothCells<float>(backend, stream, "fp32", size));
    RETURN_IF_ERROR(
        RecurrencesOfBothCells<BFloat16>(backend, stream, "bf16", size));
  }
  return absl::OkStatus();
}

absl::Status RunLayers(const Precision& precision) {
  CudaBackendOptions options;
  options.precision = precision.value;
  ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend,
                   CreateCudaBackend(absl::GetFlag(FLAGS_ordinal), options));
  RETURN_IF_ERROR(ProductRate(*backend, precision.name));
  for (const LayerSize& size : SruSizes()) {
    RETURN_IF_ERROR(SruLayers(*backend, precision.name, size));
  }
  for (const LayerSize& size : QrnnSizes(absl::GetFlag(FLAGS_quick))) {
    RETURN_IF_ERROR(QrnnLayers(*backend, precision.name, size));
  }
  return absl::OkStatus();
}

absl::Status Run() {
  ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend,
                   CreateCudaBackend(absl::GetFlag(FLAGS_ordinal)));
  RETURN_IF_ERROR(cuda::ToStatus(cudaSetDevice(absl::GetFlag(FLAGS_ordinal)),
                                 "cudaSetDevice"));
  cudaStream_t stream = nullptr;
  RETURN_IF_ERROR(
      cuda::ToStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                     "cudaStreamCreate"));
  const absl::Cleanup destroy = [stream] { cudaStreamDestroy(stream); };
  RETURN_IF_ERROR(CopyBandwidth(*backend, stream));
  RETURN_IF_ERROR(RunRecurrences(*backend, stream));
  for (const Precision& precision : kPrecisions) {
    RETURN_IF_ERROR(RunLayers(precision));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace recurve::gpu

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = recurve::gpu::Run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "benchmark: %s\n", status.ToString().c_str());
  return 1;
}
