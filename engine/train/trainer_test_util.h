// Trainers on CPU devices, and calls to make on them, for tests.
#ifndef RECURVE_ENGINE_TRAIN_TRAINER_TEST_UTIL_H_
#define RECURVE_ENGINE_TRAIN_TRAINER_TEST_UTIL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/model.h"
#include "engine/model/sequence_batch.h"
#include "engine/schedule/device.h"
#include "engine/train/trainer.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve {

// One call of Step.
struct Call {
  SequenceBatch batch;
  Targets targets;
  bool continue_streams = false;
};

// The same as the trainer takes it; `call` outlives it.
StepCall ToStepCall(const Call& call);

// A call with random inputs and targets.
Call RandomCall(const Model& model, const std::vector<int64_t>& lengths,
                uint32_t seed);

// Devices, and a trainer on them that starts from seed 1. Ends the test program
// on errors that no test expects.
class TestTrainer {
 public:
  TestTrainer(const std::string& devices, const std::string& model,
              const std::string& config, BackendFactory factory = CreateBackend,
              const TrainerOptions& options = TrainerOptions());

  Trainer& operator*() { return *trainer_; }
  Trainer* operator->() { return trainer_.get(); }
  const Model& model() const { return trainer_->model(); }
  DevicePool& pool() { return *pool_; }

  absl::StatusOr<StepResult> TryStep(const Call& call) {
    return trainer_->Step(ToStepCall(call));
  }
  StepResult Step(const Call& call);
  std::vector<float> Parameters();

 private:
  std::unique_ptr<DevicePool> pool_;
  std::unique_ptr<Trainer> trainer_;
};

v1::TrainerConfig ParseTrainerConfig(const std::string& text);

// Whether all bits agree: tells 0 from -0, and NaN is equal to itself.
bool SameBits(const std::vector<float>& a, const std::vector<float>& b);

// The largest difference between two numbers of the same place.
double MaxDifference(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_TRAINER_TEST_UTIL_H_
