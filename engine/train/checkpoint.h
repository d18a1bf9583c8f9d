// A training that can be gone on with, as one file: docs/checkpoints.md has the
// format.
#ifndef RECURVE_ENGINE_TRAIN_CHECKPOINT_H_
#define RECURVE_ENGINE_TRAIN_CHECKPOINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/train/trainer_state.h"
#include "proto/recurve/v1/model_config.pb.h"

namespace recurve {

// A trainer's state and what its owner keeps beside it. Numbers come back bit
// for bit.
struct Checkpoint {
  v1::ModelConfig model_config;
  std::vector<std::string> vocabulary;  // empty = none
  TrainerState trainer;
  std::string details;                 // the owner's own bytes
  std::vector<float> best_parameters;  // empty = none
};

// Writes it aside, synced, and renames it to `path`, without another copy of
// the numbers; returns the file's size. The file ends in a checksum of all that
// comes before. On an error `path` holds what it held before.
absl::StatusOr<int64_t> SaveCheckpointFile(const std::string& path,
                                           const Checkpoint& checkpoint);

// NotFound, or as the system reads the file; DataLoss for bytes that are not
// those that were written.
absl::StatusOr<Checkpoint> LoadCheckpointFile(const std::string& path);

// The same, at little cost: without buffers and streams in `trainer` and
// without best_parameters, and without a look at the checksum.
struct CheckpointDescription {
  Checkpoint checkpoint;
  int64_t size_bytes = 0;
};
absl::StatusOr<CheckpointDescription> DescribeCheckpointFile(
    const std::string& path);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_CHECKPOINT_H_
