// Finds where numbers stop being finite. Slow, for when something went wrong:
// whole activations are copied to the host.
#ifndef RECURVE_ENGINE_MODEL_NOT_FINITE_SCAN_H_
#define RECURVE_ENGINE_MODEL_NOT_FINITE_SCAN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "engine/model/places.h"
#include "kernels/backend.h"

namespace recurve {

struct PassContext;

// Of each sequence whose loss or state after is not finite: the first place, in
// forward order, where a number is not. Activations as a forward pass in
// training mode and the loss, without its gradient, leave them.
absl::StatusOr<std::vector<NotFiniteSequence>> ScanActivations(
    const PassContext& context, const std::vector<int64_t>& cu_seqlens);

// The first place, in backward order, that has a parameter with a gradient that
// is not finite; none if all are finite. `gradients`: device memory, numbers
// [begin, end) of a buffer of model.parameters().
absl::StatusOr<std::optional<int>> ScanGradients(const Model& model,
                                                 Backend& backend,
                                                 const float* gradients,
                                                 int64_t begin, int64_t end);

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_NOT_FINITE_SCAN_H_
