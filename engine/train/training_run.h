// From a TrainSpec to what a run needs: model, first weights, batches. The job
// runner trains on it; ReadBatches streams its batches.
#ifndef RECURVE_ENGINE_TRAIN_TRAINING_RUN_H_
#define RECURVE_ENGINE_TRAIN_TRAINING_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/model/model.h"
#include "engine/train/dataset_store.h"
#include "engine/train/loader.h"
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
  virtual absl::StatusOr<std::string> Publish(absl::string_view model_name,
                                              const TrainableModel& model,
                                              absl::string_view source) = 0;
};

struct TrainingRun {
  TrainableModel start;
  std::unique_ptr<Loader> loader;
  // The text's last held_out_characters tokens, not in the loader's batches.
  std::vector<int32_t> held_out;
  // Batches in the whole run: whole optimizer steps only, what is left over of
  // the last epoch is not trained on. None: bounded by time alone.
  std::optional<int64_t> max_batches;
};

// ResourceExhausted, with the numbers, for a model larger than that.
absl::Status CheckParameterCount(const Model& model, int64_t max_parameters);

// What can be said without the data: names, required fields, limits, the
// trainer's numbers, the model config where it leaves no size to the data.
// InvalidArgument names the field.
absl::Status CheckTrainSpec(const v1::TrainSpec& spec);

// Checks the spec, reads the data, finds or makes the model and checks one
// against the other.
//
// With spec.config the model is new: its weights are drawn from trainer.seed,
// its vocabulary is built from the text, and sizes that are 0 in the config are
// filled in from the data (data_sizes.h; 256 token ids for BYTES). Without, it
// is from_version or the newest version of spec.model, with its vocabulary. A
// new model of more than `max_parameters` is refused (CheckParameterCount)
// before anything of its size is allocated.
absl::StatusOr<TrainingRun> PrepareTrainingRun(const v1::TrainSpec& spec,
                                               const DatasetStore& datasets,
                                               ModelExchange& models,
                                               int64_t max_parameters);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_TRAINING_RUN_H_
