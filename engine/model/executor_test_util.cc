#include "engine/model/executor_test_util.h"

#include <cstdlib>
#include <random>

#include "engine/model/config.h"
#include "engine/model/initialize.h"
#include "gtest/gtest.h"
#include "kernels/cpu/backend.h"

namespace recurve {
namespace {

void Require(const absl::Status& status) {
  ASSERT_TRUE(status.ok()) << status;
  if (!status.ok()) std::abort();
}

template <typename T>
T Require(absl::StatusOr<T> value) {
  Require(value.status());
  return *std::move(value);
}

// Initial parameters, none of them left at a special value.
std::vector<float> PerturbedParameters(const Model& model) {
  std::vector<float> parameters = InitializeParameters(model, 1);
  std::mt19937 random(2);
  std::normal_distribution<float> noise(0, 0.1f);
  for (const Parameter& p : model.parameters().parameters()) {
    if (p.name.find("projection_bias") != std::string::npos) continue;
    for (int64_t i = 0; i < p.count(); ++i) {
      parameters[p.offset + i] += noise(random);
    }
  }
  return parameters;
}

}  // namespace

TestExecutor::TestExecutor(const std::string& textproto, int threads)
    : TestExecutor(textproto, CreateCpuBackend(threads)) {}

TestExecutor::TestExecutor(const std::string& textproto,
                           std::unique_ptr<Backend> backend, ParameterUse use,
                           Precision precision)
    : backend_(std::move(backend)),
      model_(Require(Model::Create(Require(ParseModelConfig(textproto))))) {
  const int64_t bytes = model_->parameters().buffer_size() * sizeof(float);
  weights_ = Require(backend_->Allocate(bytes));
  gradients_ = Require(backend_->Allocate(bytes));
  SetParameters(PerturbedParameters(*model_));
  executor_ = Require(Executor::Create(model_, *backend_,
                                       static_cast<float*>(weights_->data()),
                                       use, precision));
}

void TestExecutor::SetParameters(const std::vector<float>& parameters) {
  parameters_ = parameters;
  Require(backend_->Upload(weights_->data(), parameters.data(),
                           parameters.size() * sizeof(float)));
}

std::vector<float> TestExecutor::ToHost(Matrix<const float> device) {
  std::vector<float> host(device.rows * device.cols);
  if (host.empty()) return host;
  Require(backend_->Download(host.data(), device.data,
                             host.size() * sizeof(float)));
  return host;
}

ForwardResult TestExecutor::Forward(const ForwardArgs& args) {
  return Require(executor_->Forward(args));
}

std::vector<float> TestExecutor::Output(const ForwardArgs& args) {
  return ToHost(Forward(args).output);
}

std::vector<float> TestExecutor::Gradients(const Targets& targets,
                                           double* loss) {
  BackwardArgs args;
  args.gradients = static_cast<float*>(gradients_->data());
  // Everything must be overwritten.
  const int64_t count = model_->parameters().buffer_size();
  const std::vector<float> garbage(count, 123.0f);
  Require(backend_->Upload(gradients_->data(), garbage.data(),
                           count * sizeof(float)));
  const LossResult result = Require(executor_->LossAndBackward(targets, args));
  if (loss != nullptr) *loss = result.loss;
  return ToHost(Matrix<const float>(args.gradients, 1, count));
}

SequenceBatch RandomBatch(const Model& model,
                          const std::vector<int64_t>& lengths, uint32_t seed) {
  std::mt19937 random(seed);
  SequenceBatch batch;
  for (const int64_t length : lengths) {
    batch.cu_seqlens.push_back(batch.num_rows() + length);
  }
  std::normal_distribution<float> number;
  for (int64_t n = 0; n < batch.num_rows(); ++n) {
    if (model.takes_tokens()) {
      batch.tokens.push_back(random() % model.vocabulary_size());
    }
    for (int64_t i = 0; i < model.feature_size(); ++i) {
      batch.features.push_back(number(random));
    }
  }
  return batch;
}

Targets RandomTargets(const Model& model, const SequenceBatch& batch,
                      uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> number;
  std::uniform_real_distribution<float> weight(0.5f, 2.0f);
  const bool classes = model.config().loss().kind() == v1::Loss::CROSS_ENTROPY;
  Targets targets;
  const int64_t rows = model.pools() ? batch.num_sequences() : batch.num_rows();
  for (int64_t r = 0; r < rows; ++r) {
    targets.weights.push_back(weight(random));
    if (classes) {
      const bool ignored = random() % 5 == 0;
      targets.classes.push_back(ignored ? model.ignore_index()
                                        : random() % model.output_size());
    } else {
      for (int64_t o = 0; o < model.output_size(); ++o) {
        targets.values.push_back(number(random));
      }
    }
  }
  return targets;
}

SequenceBatch Slice(const Model& model, const SequenceBatch& batch,
                    int64_t first, int64_t count) {
  SequenceBatch slice;
  const int64_t begin = batch.cu_seqlens[first];
  const int64_t end = batch.cu_seqlens[first + count];
  for (int64_t b = first; b < first + count; ++b) {
    slice.cu_seqlens.push_back(batch.cu_seqlens[b + 1] - begin);
  }
  if (model.takes_tokens()) {
    slice.tokens.assign(batch.tokens.begin() + begin,
                        batch.tokens.begin() + end);
  } else {
    const int64_t size = model.feature_size();
    slice.features.assign(batch.features.begin() + begin * size,
                          batch.features.begin() + end * size);
  }
  return slice;
}

}  // namespace recurve
