// Everything that decides how a training goes on, in host memory: what a
// checkpoint holds. It says nothing about devices.
#ifndef RECURVE_ENGINE_TRAIN_TRAINER_STATE_H_
#define RECURVE_ENGINE_TRAIN_TRAINER_STATE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/model/model.h"
#include "engine/train/streams.h"

namespace recurve {

// Buffers have the layout of Model::parameters().
struct TrainerState {
  int64_t step = 0;           // optimizer steps done, skipped ones included
  int64_t skipped_steps = 0;  // of them; not counted in Adam's bias correction
  int32_t accumulated_calls = 0;   // since the last optimizer step
  double accumulated_weight = 0;   // of their rows
  double learning_rate_scale = 1;  // multiplies the schedule's rate

  std::vector<float> parameters;            // [buffer_size]
  std::vector<float> first_moment;          // [buffer_size]; empty = the
  std::vector<float> second_moment;         //   optimizer has none
  std::vector<float> accumulated_gradient;  // [buffer_size], sum of the
                                            //   calls; empty = none
  Streams streams;
};

// InvalidArgument for a buffer that is not of the model's size.
absl::Status CheckParameters(const Model& model,
                             const std::vector<float>& parameters);

// InvalidArgument names the field that cannot be: sizes that are not the
// model's or the optimizer's, and counts that do not go together. Numbers in
// the buffers and states are taken as they are. num_moments as NumMoments in
// trainer_config.h.
absl::Status CheckTrainerState(const Model& model, int num_moments,
                               const TrainerState& state);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_TRAINER_STATE_H_
