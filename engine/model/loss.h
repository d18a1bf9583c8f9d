// The loss of the rows that a forward pass left on the device.
#ifndef RECURVE_ENGINE_MODEL_LOSS_H_
#define RECURVE_ENGINE_MODEL_LOSS_H_

#include "absl/status/statusor.h"
#include "engine/model/activations.h"
#include "engine/model/executor.h"
#include "engine/model/model.h"
#include "engine/model/sequence_batch.h"
#include "kernels/backend.h"

namespace recurve {

// `targets` has been checked by Model::CheckTargets; see Executor::Loss.
absl::StatusOr<LossResult> ComputeLoss(const Model& model,
                                       const Targets& targets,
                                       bool want_gradient,
                                       const Activations& activations,
                                       Backend& backend);

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_LOSS_H_
