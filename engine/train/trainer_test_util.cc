#include "engine/train/trainer_test_util.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "engine/model/executor_test_util.h"
#include "engine/model/initialize.h"
#include "engine/model/test_models.h"
#include "google/protobuf/text_format.h"

namespace recurve {
namespace {

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
    std::abort();
  }
  return *std::move(value);
}

}  // namespace

Call RandomCall(const Model& model, const std::vector<int64_t>& lengths,
                uint32_t seed) {
  Call call;
  call.batch = RandomBatch(model, lengths, seed);
  call.targets = RandomTargets(model, call.batch, seed + 1000);
  return call;
}

StepCall ToStepCall(const Call& call) {
  StepCall step;
  step.batch = &call.batch;
  step.targets = &call.targets;
  step.continue_streams = call.continue_streams;
  return step;
}

TestTrainer::TestTrainer(const std::string& devices, const std::string& model,
                         const std::string& config, BackendFactory factory,
                         const TrainerOptions& options)
    : pool_(std::make_unique<DevicePool>(Must(ParseDevices(devices)),
                                         std::move(factory))) {
  const auto plan = MakeModel(model);
  trainer_ = Must(Trainer::Create(*pool_, plan, InitializeParameters(*plan, 1),
                                  ParseTrainerConfig(config), options));
}

StepResult TestTrainer::Step(const Call& call) { return Must(TryStep(call)); }

std::vector<float> TestTrainer::Parameters() {
  return Must(trainer_->Parameters());
}

v1::TrainerConfig ParseTrainerConfig(const std::string& text) {
  v1::TrainerConfig config;
  if (!google::protobuf::TextFormat::ParseFromString(text, &config)) {
    std::fprintf(stderr, "%s\n", text.c_str());
    std::abort();
  }
  return config;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

double MaxDifference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(double{a[i]} - b[i]);
    if (!(difference <= largest)) largest = difference;  // NaN too
  }
  return largest;
}

}  // namespace recurve
