// Finds which modules of a checkpoint are the parts of a model.
#ifndef RECURVE_ENGINE_MODEL_LIBRARY_NAMES_H_
#define RECURVE_ENGINE_MODEL_LIBRARY_NAMES_H_

#include "absl/status/statusor.h"
#include "engine/model/library_import.h"
#include "engine/model/library_keys.h"
#include "engine/model/model.h"
#include "engine/model/tensor_data.h"

namespace recurve {

// The names under which `tensors` holds the model; a part that is not there
// has its default name, so that comparing with ModelTensors tells what is
// missing. InvalidArgument where there is a choice, or what is recognised
// cannot be run.
absl::StatusOr<LibraryNames> FindNames(const Model& model,
                                       const TensorMap& tensors,
                                       const ImportOptions& options);

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_LIBRARY_NAMES_H_
