// The memory of a trainer: on which devices it is, and what it holds of each
// in their ledgers. It decides where micro-batches go, never how a batch is
// cut.
#ifndef RECURVE_ENGINE_TRAIN_TRAINER_MEMORY_H_
#define RECURVE_ENGINE_TRAIN_TRAINER_MEMORY_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/model/model.h"
#include "engine/schedule/device.h"
#include "engine/schedule/held_memory.h"
#include "engine/schedule/ledger.h"
#include "engine/schedule/memory_plan.h"
#include "engine/schedule/partition.h"
#include "engine/train/device_gang.h"
#include "engine/train/trainer.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve {

// For the trainer's thread, which is no device's. What it holds ends with it.
class TrainerMemory {
 public:
  // As Trainer::Create says. `config` is resolved, `pool` outlives it.
  static absl::StatusOr<TrainerMemory> Reserve(
      DevicePool& pool, std::shared_ptr<const Model> model,
      const v1::TrainerConfig& config, const TrainerOptions& options);

  const DeviceGroup& group() const { return group_; }
  // What a rank's replica may have on its device, all of it reserved.
  const TrainingShape& shape(int rank) const { return shapes_[rank]; }
  const Ledger::Reservation& reservation(int rank) const {
    return reservations_[rank];
  }

  const HeldMemory* beside() const { return beside_ ? &*beside_ : nullptr; }

  // Before a call with these micro-batches, or none: gives each rank a range of
  // them and reserves what the call takes beyond what is held already. A device
  // that has no room for activations gets no micro-batch. `accumulates`: the
  // sum of the call's gradients, or of calls before it, is kept.
  //
  // ResourceExhausted, with the numbers, if no device has room, or one has no
  // room for its part in the sum of gradients: what is held has not changed.
  // Where the budgets could never hold it, with the most rows that they could.
  absl::StatusOr<std::vector<Range>> Assign(
      absl::Span<const BatchShape> micro_batches, bool accumulates);

  // Room for a sum of calls, in a trainer that goes on from one. Errors as
  // above.
  absl::Status ReserveAccumulated();

 private:
  // By rank: what a call needs on its device.
  using Shapes = std::vector<TrainingShape>;

  TrainerMemory(DeviceGroup group, std::shared_ptr<const Model> model)
      : group_(std::move(group)), model_(std::move(model)) {}

  Shapes ShapesOf(absl::Span<const Range> assignment, int64_t num_micro_batches,
                  BatchShape largest, bool accumulates) const;
  // All or nothing; `refused` is the rank that an error is about.
  absl::Status Grow(const Shapes& needed, int* refused);
  std::string Advice(int64_t num_micro_batches, BatchShape largest,
                     bool accumulates) const;
  bool FitsBudgets(int64_t num_micro_batches, BatchShape largest,
                   bool accumulates) const;
  TrainingShape Larger(const TrainingShape& a, const TrainingShape& b) const;
  int64_t ArenaBytes(BatchShape shape) const;

  DeviceGroup group_;
  std::shared_ptr<const Model> model_;
  Shapes shapes_;
  std::vector<Ledger::Reservation> reservations_;
  std::optional<HeldMemory> beside_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_TRAINER_MEMORY_H_
