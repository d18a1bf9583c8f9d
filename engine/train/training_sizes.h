// What decides the memory of a training run, found without its weights: from
// the whole data, or from no more than their size.
#ifndef RECURVE_ENGINE_TRAIN_TRAINING_SIZES_H_
#define RECURVE_ENGINE_TRAIN_TRAINING_SIZES_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/data/dataset_store.h"
#include "engine/data/sequence_dataset.h"
#include "engine/model/model.h"
#include "engine/schedule/training_fit.h"
#include "engine/train/training_run.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve {

struct TrainingSizes {
  std::shared_ptr<const Model> model;
  CallBounds calls;
  // What the run evaluates; null where it does not, or where that is not known.
  std::shared_ptr<const Dataset> validation;
  std::shared_ptr<const Dataset> held_out;
};

// Of the run that PrepareTrainingRun makes of the same, with its errors: reads
// and parses the data, draws no weights.
absl::StatusOr<TrainingSizes> SizesOfTrainingRun(const v1::TrainSpec& spec,
                                                 const DatasetStore& datasets,
                                                 ModelExchange& models,
                                                 int64_t max_parameters);

// No run of `spec` needs less than these sizes do, whatever is in its data, of
// which only `data_bytes` are known (0: nothing is). What spec.config leaves to
// the data is 1. A text's calls are exact but for a shorter last one if its
// streams are sure to be no shorter than loader.unroll; otherwise, and for
// sequences, they are one sequence of the fewest rows.
// REQUIRES: CheckTrainSpec of `spec` is OK.
absl::StatusOr<TrainingSizes> LeastSizes(const v1::TrainSpec& spec,
                                         int64_t data_bytes,
                                         ModelExchange& models);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_TRAINING_SIZES_H_
