// export_tool CONFIG.textproto DIR: makes a random model of the config, writes
// DIR/model.safetensors as an export does, and DIR/run.safetensors with
//   input [T, B, I] (or tokens [T, B]), output [T, B, O], state [B, state_size]
// of one call, for others to repeat.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/config.h"
#include "engine/model/executor.h"
#include "engine/model/initialize.h"
#include "engine/model/library_export.h"
#include "engine/model/model.h"
#include "kernels/cpu/backend.h"
#include "kernels/status.h"

namespace recurve {
namespace {

constexpr int64_t kT = 9;
constexpr int64_t kB = 3;

float Uniform(std::mt19937& random) {
  return static_cast<float>(random()) * 0x1p-31f - 1.0f;
}

// Moves everything but scale_x off its initial value, so that each bias, norm
// and coefficient shows in the outputs.
std::vector<float> RandomParameters(const Model& model) {
  std::vector<float> parameters = InitializeParameters(model, 1);
  std::mt19937 random(2);
  const LibraryNames names = DefaultNames(model);
  for (const LibraryTensor& tensor : ModelTensors(model, names)) {
    if (tensor.parameter->rows * tensor.parameter->cols == 1) continue;
    std::vector<float> values(static_cast<size_t>(tensor.count()));
    ToLibrary(tensor, parameters.data(), values.data());
    for (float& value : values) value += 0.3f * Uniform(random);
    FromLibrary(tensor, values.data(), parameters.data());
  }
  return parameters;
}

SequenceBatch RandomBatch(const Model& model) {
  SequenceBatch batch;
  std::mt19937 random(3);
  for (int64_t b = 1; b <= kB; ++b) batch.cu_seqlens.push_back(b * kT);
  for (int64_t n = 0; n < kB * kT; ++n) {
    if (model.takes_tokens()) {
      batch.tokens.push_back(
          static_cast<int32_t>(random() % model.vocabulary_size()));
    }
    for (int64_t i = 0; i < model.feature_size(); ++i) {
      batch.features.push_back(Uniform(random));
    }
  }
  return batch;
}

// Rows b * T + t become rows t * B + b.
template <typename T>
std::vector<T> TimeFirst(const std::vector<T>& packed) {
  const size_t cols = packed.size() / (kB * kT);
  std::vector<T> grid;
  for (int64_t t = 0; t < kT; ++t) {
    for (int64_t b = 0; b < kB; ++b) {
      const auto row = packed.begin() + (b * kT + t) * cols;
      grid.insert(grid.end(), row, row + cols);
    }
  }
  return grid;
}

absl::StatusOr<std::vector<float>> ToHost(Backend& backend,
                                          Matrix<const float> device) {
  std::vector<float> host(static_cast<size_t>(device.rows * device.cols));
  RETURN_IF_ERROR(
      backend.Download(host.data(), device.data, host.size() * sizeof(float)));
  return host;
}

// Output and state of one call.
absl::StatusOr<FloatTensorMap> Run(std::shared_ptr<const Model> model,
                                   const std::vector<float>& parameters,
                                   const SequenceBatch& batch) {
  const auto backend = CreateCpuBackend(1);
  const int64_t bytes = parameters.size() * sizeof(float);
  ASSIGN_OR_RETURN(const auto weights, backend->Allocate(bytes));
  RETURN_IF_ERROR(backend->Upload(weights->data(), parameters.data(), bytes));
  ASSIGN_OR_RETURN(
      const auto executor,
      Executor::Create(model, *backend,
                       static_cast<const float*>(weights->data())));
  ForwardArgs args;
  args.batch = &batch;
  ASSIGN_OR_RETURN(const ForwardResult result, executor->Forward(args));
  ASSIGN_OR_RETURN(const auto output, ToHost(*backend, result.output));
  ASSIGN_OR_RETURN(const auto state, ToHost(*backend, result.state));
  return FloatTensorMap{
      {"output", {{kT, kB, model->output_size()}, TimeFirst(output)}},
      {"state", {{kB, model->state_size()}, state}}};
}

template <typename T>
TensorView ViewOf(DType dtype, std::vector<int64_t> shape,
                  const std::vector<T>& values) {
  return {dtype,
          std::move(shape),
          {reinterpret_cast<const uint8_t*>(values.data()),
           values.size() * sizeof(T)}};
}

absl::Status WriteRun(const std::string& path, const Model& model,
                      const SequenceBatch& batch,
                      const FloatTensorMap& results) {
  TensorMap tensors = Views(results);
  const std::vector<int32_t> tokens = TimeFirst(batch.tokens);
  const std::vector<float> input = TimeFirst(batch.features);
  if (model.takes_tokens()) {
    tensors["tokens"] = ViewOf(DType::kI32, {kT, kB}, tokens);
  } else {
    tensors["input"] =
        ViewOf(DType::kF32, {kT, kB, model.feature_size()}, input);
  }
  return WriteSafetensors(path, tensors, {});
}

absl::Status Main(const std::string& config_path,
                  const std::string& directory) {
  ASSIGN_OR_RETURN(const std::string text,
                   ReadFile(config_path, kMaxConfigBytes));
  ASSIGN_OR_RETURN(const v1::ModelConfig config, ParseModelConfig(text));
  ASSIGN_OR_RETURN(const std::shared_ptr<const Model> model,
                   Model::Create(config));
  const std::vector<float> parameters = RandomParameters(*model);
  const LibraryNames names = DefaultNames(*model);
  RETURN_IF_ERROR(WriteSafetensors(
      directory + "/model.safetensors",
      Views(ExportLibrary(*model, parameters, names)), ExportMetadata(names)));
  const SequenceBatch batch = RandomBatch(*model);
  ASSIGN_OR_RETURN(const FloatTensorMap results, Run(model, parameters, batch));
  return WriteRun(directory + "/run.safetensors", *model, batch, results);
}

}  // namespace
}  // namespace recurve

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: export_tool CONFIG.textproto DIR\n");
    return 2;
  }
  const absl::Status status = recurve::Main(argv[1], argv[2]);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
