// The engine alone, without service or scheduler: forward passes over packed
// batches of the load's sequences, each device on its own thread. Prints a line
// of JSON: engine_benchmark --help.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/model/config.h"
#include "engine/model/executor.h"
#include "engine/model/initialize.h"
#include "engine/model/model.h"
#include "engine/model/sequence_batch.h"
#include "engine/schedule/device.h"
#include "engine/schedule/device_spec.h"
#include "kernels/status.h"
#include "nlohmann/json.hpp"
#include "tests/benchmarks/serving/latencies.h"
#include "tests/benchmarks/serving/mix.h"

ABSL_FLAG(std::string, config, "", "textproto of a token model");
ABSL_FLAG(std::string, devices, "cpu:1,cpu:1", "as recurve_server's");
ABSL_FLAG(int, min_length, 64, "of a sequence");
ABSL_FLAG(int, max_length, 64, "lengths are log-uniform between both");
ABSL_FLAG(int, sequences, 512, "different ones");
ABSL_FLAG(int, max_batch_rows, 1024, "rows of whole sequences in a pass");
ABSL_FLAG(int, max_batch_size, 64, "sequences in a pass");
ABSL_FLAG(absl::Duration, warm_up, absl::Seconds(1), "before it counts");
ABSL_FLAG(absl::Duration, duration, absl::Seconds(5), "that counts");

namespace recurve::serving {
namespace {

// Whole sequences, one after another, as many as fit a pass.
std::vector<SequenceBatch> Pack(const Mix& mix) {
  const int64_t max_rows = absl::GetFlag(FLAGS_max_batch_rows);
  const int64_t max_sequences = absl::GetFlag(FLAGS_max_batch_size);
  std::vector<SequenceBatch> batches;
  for (const std::vector<int32_t>& tokens : mix) {
    const auto rows = static_cast<int64_t>(tokens.size());
    if (batches.empty() || batches.back().num_rows() + rows > max_rows ||
        batches.back().num_sequences() == max_sequences) {
      batches.emplace_back();
    }
    SequenceBatch& batch = batches.back();
    batch.cu_seqlens.push_back(batch.num_rows() + rows);
    batch.tokens.insert(batch.tokens.end(), tokens.begin(), tokens.end());
  }
  return batches;
}

struct Counts {
  int64_t rows = 0;
  Latencies passes;
};

// On the device's thread.
absl::StatusOr<Counts> RunPasses(std::shared_ptr<const Model> model,
                                 const std::vector<float>& parameters,
                                 const std::vector<SequenceBatch>& batches,
                                 Backend& backend) {
  const int64_t bytes = static_cast<int64_t>(sizeof(float) * parameters.size());
  ASSIGN_OR_RETURN(const auto weights, backend.Allocate(bytes));
  RETURN_IF_ERROR(backend.Upload(weights->data(), parameters.data(), bytes));
  ASSIGN_OR_RETURN(const auto executor,
                   Executor::Create(std::move(model), backend,
                                    static_cast<float*>(weights->data()),
                                    ParameterUse::kFixed));
  const absl::Time counts_from = absl::Now() + absl::GetFlag(FLAGS_warm_up);
  const absl::Time end = counts_from + absl::GetFlag(FLAGS_duration);
  Counts counts;
  for (size_t i = 0;; ++i) {
    const SequenceBatch& batch = batches[i % batches.size()];
    ForwardArgs args;
    args.batch = &batch;
    const absl::Time begin = absl::Now();
    RETURN_IF_ERROR(executor->Forward(args).status());
    RETURN_IF_ERROR(backend.Synchronize());
    const absl::Time now = absl::Now();
    if (begin < counts_from) continue;
    if (now > end) return counts;
    counts.rows += batch.num_rows();
    counts.passes.Add(now - begin);
  }
}

absl::StatusOr<nlohmann::json> Run() {
  std::ifstream file(absl::GetFlag(FLAGS_config));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  ASSIGN_OR_RETURN(const auto config, ParseModelConfig(text));
  ASSIGN_OR_RETURN(const auto model, Model::Create(config));
  ASSIGN_OR_RETURN(const auto specs,
                   ParseDevices(absl::GetFlag(FLAGS_devices)));
  MixOptions mix;
  mix.count = absl::GetFlag(FLAGS_sequences);
  mix.min_length = absl::GetFlag(FLAGS_min_length);
  mix.max_length = absl::GetFlag(FLAGS_max_length);
  mix.vocabulary_size = static_cast<int32_t>(model->vocabulary_size());
  const std::vector<SequenceBatch> batches = Pack(MakeMix(mix));
  const std::vector<float> parameters = InitializeParameters(*model, 1);
  ASSIGN_OR_RETURN(const auto devices, DevicePool::Create(specs));

  std::vector<absl::StatusOr<Counts>> counts(devices->size());
  absl::BlockingCounter running(devices->size());
  for (int rank = 0; rank < devices->size(); ++rank) {
    devices->device(rank).Enqueue(TaskClass::kServing, [&, rank](Backend& b) {
      counts[rank] = RunPasses(model, parameters, batches, b);
      running.DecrementCount();
    });
  }
  running.Wait();

  Latencies passes;
  int64_t rows = 0;
  for (const auto& device : counts) {
    RETURN_IF_ERROR(device.status());
    rows += device->rows;
    passes.Append(device->passes);
  }
  const double seconds = absl::ToDoubleSeconds(absl::GetFlag(FLAGS_duration));
  return nlohmann::json{{"rows_per_s", static_cast<double>(rows) / seconds},
                        {"passes", passes.Summary()}};
}

}  // namespace
}  // namespace recurve::serving

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Forward passes on packed batches; prints a line of JSON.");
  absl::ParseCommandLine(argc, argv);
  const auto report = recurve::serving::Run();
  if (!report.ok()) {
    std::fprintf(stderr, "%s\n", report.status().ToString().c_str());
    return 1;
  }
  std::printf("%s\n", report->dump().c_str());
  return 0;
}
