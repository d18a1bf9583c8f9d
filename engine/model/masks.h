// Fills the masks of a training pass: drawn from Philox, or as given.
#ifndef RECURVE_ENGINE_MODEL_MASKS_H_
#define RECURVE_ENGINE_MODEL_MASKS_H_

#include <vector>

#include "absl/status/status.h"
#include "engine/model/activations.h"
#include "engine/model/executor.h"
#include "engine/model/model.h"
#include "kernels/backend.h"

namespace recurve {

// RandomKey.layer is the layer's index in Model::layers(), but for the plain
// dropouts before the first and after the last layer.
inline constexpr uint32_t kInputDropoutLayer = 0xFFFFFFFE;
inline constexpr uint32_t kOutputDropoutLayer = 0xFFFFFFFF;

// All masks that `activations` has. `random.positions` has been uploaded.
absl::Status DrawMasks(const Model& model, const RandomContext& random,
                       const Activations& activations, Backend& backend);

// The layers' masks from host memory, the others drawn. InvalidArgument if one
// that training would draw is missing or has another size.
absl::Status GiveMasks(const Model& model, const RandomContext& random,
                       const std::vector<LayerMasks>& masks,
                       const Activations& activations, Backend& backend);

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_MASKS_H_
