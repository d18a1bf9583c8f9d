// A model with weights on a device, for tests of the executor.
#ifndef RECURVE_ENGINE_MODEL_EXECUTOR_TEST_UTIL_H_
#define RECURVE_ENGINE_MODEL_EXECUTOR_TEST_UTIL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/executor.h"
#include "engine/model/model.h"
#include "kernels/backend.h"
#include "kernels/precision.h"

namespace recurve {

// Fails the test, and ends it, on errors that no test expects.
class TestExecutor {
 public:
  // On a CPU device.
  explicit TestExecutor(const std::string& textproto, int threads = 1);
  TestExecutor(const std::string& textproto, std::unique_ptr<Backend> backend,
               ParameterUse use = ParameterUse::kTrained,
               Precision precision = Precision::kFloat32);

  const Model& model() const { return *model_; }
  Executor& executor() { return *executor_; }
  Backend& backend() { return *backend_; }
  // What the device has, to be changed and uploaded by SetParameters if they
  // are not fixed.
  const std::vector<float>& parameters() const { return parameters_; }
  void SetParameters(const std::vector<float>& parameters);

  std::vector<float> ToHost(Matrix<const float> device);
  ForwardResult Forward(const ForwardArgs& args);
  // The output of a forward pass.
  std::vector<float> Output(const ForwardArgs& args);
  // Gradients of all parameters, of the loss of the last Forward, which `loss`
  // gets if given.
  std::vector<float> Gradients(const Targets& targets, double* loss = nullptr);

 private:
  std::unique_ptr<Backend> backend_;
  std::shared_ptr<const Model> model_;
  std::vector<float> parameters_;
  std::unique_ptr<DeviceBuffer> weights_;
  std::unique_ptr<DeviceBuffer> gradients_;
  std::unique_ptr<Executor> executor_;
};

// Sequences of these lengths, with tokens or features as the model asks.
SequenceBatch RandomBatch(const Model& model,
                          const std::vector<int64_t>& lengths, uint32_t seed);
// Targets with weights; some classes are ignored.
Targets RandomTargets(const Model& model, const SequenceBatch& batch,
                      uint32_t seed);
// Sequences [first, first + count) of a batch.
SequenceBatch Slice(const Model& model, const SequenceBatch& batch,
                    int64_t first, int64_t count);

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_EXECUTOR_TEST_UTIL_H_
