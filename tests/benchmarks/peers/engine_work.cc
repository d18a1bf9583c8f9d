#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/substitute.h"
#include "engine/model/config.h"
#include "engine/model/executor.h"
#include "engine/model/initialize.h"
#include "engine/model/model.h"
#include "engine/model/sequence_batch.h"
#include "engine/train/trainer.h"
#include "kernels/status.h"
#include "proto/recurve/v1/training_config.pb.h"
#include "tests/benchmarks/peers/on_device.h"
#include "tests/benchmarks/peers/random_floats.h"
#include "tests/benchmarks/peers/work.h"

namespace recurve::peers {
namespace {

SequenceBatch RandomBatch(const Shape& shape) {
  SequenceBatch batch;
  for (int64_t b = 1; b <= shape.batch; ++b) {
    batch.cu_seqlens.push_back(b * shape.length);
  }
  batch.features = RandomFloats(shape.rows() * shape.hidden, 1);
  return batch;
}

class ForwardWork : public Work {
 public:
  static absl::StatusOr<std::unique_ptr<Work>> Create(
      DeviceWorker& device, std::shared_ptr<const Model> model,
      Precision precision, bool keep_state, const Shape& shape) {
    std::unique_ptr<ForwardWork> work(
        new ForwardWork(device, keep_state, RandomBatch(shape)));
    RETURN_IF_ERROR(OnDevice(device, [&](Backend& backend) {
      return work->Load(std::move(model), precision, backend);
    }));
    return work;
  }

  // A backend's memory is freed by its own thread.
  ~ForwardWork() override {
    OnDevice(device_, [&](Backend&) {
      executor_.reset();
      weights_.reset();
      return absl::OkStatus();
    }).IgnoreError();
  }

  absl::Status Run(int64_t turns) override {
    return OnDevice(device_, [&](Backend& backend) {
      for (int64_t turn = 0; turn < turns; ++turn) {
        RETURN_IF_ERROR(RunOnce(backend));
      }
      return absl::OkStatus();
    });
  }

 private:
  ForwardWork(DeviceWorker& device, bool keep_state, SequenceBatch batch)
      : device_(device), keep_state_(keep_state), batch_(std::move(batch)) {}

  absl::Status Load(std::shared_ptr<const Model> model, Precision precision,
                    Backend& backend) {
    const std::vector<float> parameters = InitializeParameters(*model, 1);
    const auto bytes = static_cast<int64_t>(sizeof(float) * parameters.size());
    ASSIGN_OR_RETURN(weights_, backend.Allocate(bytes));
    RETURN_IF_ERROR(backend.Upload(weights_->data(), parameters.data(), bytes));
    ASSIGN_OR_RETURN(executor_,
                     Executor::Create(std::move(model), backend,
                                      static_cast<float*>(weights_->data()),
                                      ParameterUse::kFixed, precision));
    return absl::OkStatus();
  }

  absl::Status RunOnce(Backend& backend) {
    ForwardArgs args;
    args.batch = &batch_;
    args.state = state_;
    ASSIGN_OR_RETURN(const ForwardResult result, executor_->Forward(args));
    if (keep_state_) {
      state_.resize(result.state.rows * result.state.cols);
      RETURN_IF_ERROR(backend.Download(state_.data(), result.state.data,
                                       sizeof(float) * state_.size()));
    }
    return backend.Synchronize();
  }

  DeviceWorker& device_;
  const bool keep_state_;
  const SequenceBatch batch_;
  std::vector<float> state_;
  std::unique_ptr<DeviceBuffer> weights_;
  std::unique_ptr<Executor> executor_;
};

class TrainingWork : public Work {
 public:
  static absl::StatusOr<std::unique_ptr<Work>> Create(
      DevicePool& pool, std::shared_ptr<const Model> model,
      const Shape& shape) {
    v1::TrainerConfig config;
    config.mutable_optimizer()->mutable_adam();
    config.mutable_learning_rate()->set_peak(1e-4f);
    ASSIGN_OR_RETURN(
        auto trainer,
        Trainer::Create(pool, model, InitializeParameters(*model, 1), config));
    return std::unique_ptr<Work>(new TrainingWork(std::move(trainer), shape));
  }

  absl::Status Run(int64_t turns) override {
    StepCall call;
    call.batch = &batch_;
    call.targets = &targets_;
    for (int64_t turn = 0; turn < turns; ++turn) {
      RETURN_IF_ERROR(trainer_->Step(call).status());
    }
    return absl::OkStatus();
  }

 private:
  TrainingWork(std::unique_ptr<Trainer> trainer, const Shape& shape)
      : trainer_(std::move(trainer)), batch_(RandomBatch(shape)) {
    targets_.values = RandomFloats(shape.rows() * shape.hidden, 2);
  }

  const std::unique_ptr<Trainer> trainer_;
  const SequenceBatch batch_;
  Targets targets_;
};

}  // namespace

std::string ConfigText(const std::string& cell, const Shape& shape) {
  return absl::Substitute(
      "input { features { size: $1 } } "
      "blocks { $0 { hidden_size: $1 num_layers: $2 } } "
      "loss { kind: MEAN_SQUARED_ERROR }",
      cell, shape.hidden, shape.layers);
}

absl::StatusOr<std::unique_ptr<Work>> EngineWork(DevicePool& pool,
                                                 const std::string& cell,
                                                 Precision precision, Kind kind,
                                                 const Shape& shape) {
  ASSIGN_OR_RETURN(const auto config,
                   ParseModelConfig(ConfigText(cell, shape)));
  ASSIGN_OR_RETURN(auto model, Model::Create(config));
  if (kind == Kind::kTraining) {
    return TrainingWork::Create(pool, std::move(model), shape);
  }
  return ForwardWork::Create(pool.device(0), std::move(model), precision,
                             kind == Kind::kStep, shape);
}

}  // namespace recurve::peers
