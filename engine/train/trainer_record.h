// What a trainer was made of and which calls it has answered, as its
// checkpoints carry it beside the training's own state.
#ifndef RECURVE_ENGINE_TRAIN_TRAINER_RECORD_H_
#define RECURVE_ENGINE_TRAIN_TRAINER_RECORD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/model/library_keys.h"
#include "engine/model/model.h"
#include "engine/train/numbered_calls.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve {

// Never changes.
struct TrainerOrigin {
  std::string request_id;  // of the call that made it; may be empty
  absl::Time create_time;
  std::string model_name;  // models/ID: where its versions go
  std::shared_ptr<const Model> model;
  std::vector<std::string> vocabulary;  // index = token id; may be empty
  std::optional<LibraryNames> names;    // of the version it started from
  v1::TrainerConfig config;             // every default filled in
  int64_t save_every_calls = 0;         // 0: from time to time
};

struct TrainerRecord {
  TrainerOrigin origin;
  absl::Time save_time;
  int32_t accumulated_calls = 0;  // since the last optimizer step
  NumberedCalls calls;
};

// All but the model and the vocabulary, which a checkpoint has of its own.
std::string SerializeTrainerRecord(const TrainerRecord& record);
// DataLoss for what SerializeTrainerRecord did not write.
absl::StatusOr<TrainerRecord> ParseTrainerRecord(absl::string_view bytes);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_TRAINER_RECORD_H_
