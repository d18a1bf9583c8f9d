// From a TrainSpec to what a run needs: model, first weights, batches. The job
// runner trains on it; ReadBatches streams its batches.
#ifndef RECURVE_ENGINE_TRAIN_TRAINING_RUN_H_
#define RECURVE_ENGINE_TRAIN_TRAINING_RUN_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/dataset_store.h"
#include "engine/data/loader.h"
#include "engine/data/sequence_dataset.h"
#include "engine/model/model.h"
#include "engine/schedule/training_fit.h"
#include "engine/train/train_spec.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve {

// A model with weights, on its way between registry and trainer.
struct TrainableModel {
  std::shared_ptr<const Model> model;
  std::vector<std::string> vocabulary;  // empty = none
  std::vector<float> parameters;        // model->parameters() layout
};

// The registry as training sees it. Thread-safe.
class ModelExchange {
 public:
  virtual ~ModelExchange() = default;
  // `name` is models/ID, for the newest version, or models/ID/versions/N.
  virtual absl::StatusOr<TrainableModel> Load(absl::string_view name) = 0;
  // Makes it the next version of models/ID, created if absent, and returns
  // models/ID/versions/N once that is durable. `source` says where it comes
  // from: jobs/ID.
  // A second call with the same request id, even after a crash in between,
  // returns what the first one made.
  virtual absl::StatusOr<std::string> Publish(absl::string_view model_name,
                                              const TrainableModel& model,
                                              absl::string_view source,
                                              absl::string_view request_id) = 0;
};

struct TrainingRun {
  TrainableModel start;
  std::unique_ptr<Loader> loader;
  // Not in the loader's batches: the text's last held_out_characters tokens,
  // and the validation data. Null where there is none.
  std::shared_ptr<const Dataset> held_out;
  std::shared_ptr<const Dataset> validation;
  // Batches in the whole run: whole optimizer steps only, what is left over of
  // the last epoch is not trained on. None: bounded by time alone.
  std::optional<int64_t> max_batches;
  // What no batch exceeds.
  CallBounds calls;
  // Of the file of the data, or of that and its targets' file, one after the
  // other; of validation.source, empty if that is not set.
  std::string data_sha256;
  std::string validation_sha256;
};

// ResourceExhausted, with the numbers, for a model larger than that.
absl::Status CheckParameterCount(const Model& model, int64_t max_parameters);

// Checks the spec, reads the data, finds or makes the model and checks one
// against the other.
//
// With spec.config the model is new: its weights are drawn from trainer.seed,
// its vocabulary is built from the text, and sizes that are 0 in the config are
// filled in from the data (data_sizes.h; 256 token ids for BYTES). Without, it
// is from_version or the newest version of spec.model, with its vocabulary. A
// new model of more than `max_parameters` is refused (CheckParameterCount)
// before anything of its size is allocated.
//
// Cancelled at the end of a file or of another part of the work once
// `cancelled`, where it is given, is true.
absl::StatusOr<TrainingRun> PrepareTrainingRun(
    const v1::TrainSpec& spec, const DatasetStore& datasets,
    ModelExchange& models, int64_t max_parameters,
    const std::atomic<bool>* cancelled = nullptr);

// FailedPrecondition, with both checksums, where `before` is not empty and
// differs.
absl::Status CheckSameData(absl::string_view field, absl::string_view before,
                           absl::string_view now);

// The same for a run that was begun before, with this model, whatever the
// registry now has; CheckSameData with the data that it was begun with.
absl::StatusOr<TrainingRun> ResumeTrainingRun(
    const v1::TrainSpec& spec, const DatasetStore& datasets,
    TrainableModel model, absl::string_view data_sha256,
    const std::atomic<bool>* cancelled = nullptr);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_TRAINING_RUN_H_
