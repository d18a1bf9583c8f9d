// Parameters of a model as a checkpoint of the PyTorch libraries.
#ifndef RECURVE_ENGINE_MODEL_LIBRARY_EXPORT_H_
#define RECURVE_ENGINE_MODEL_LIBRARY_EXPORT_H_

#include <vector>

#include "engine/model/library_keys.h"
#include "engine/model/model.h"
#include "engine/model/safetensors.h"

namespace recurve {

// `parameters` has the model's layout, `names` come from import or
// DefaultNames. Importing the result gives the same bits back. Gradients, which
// have the same layout, can be asked for in the same way.
FloatTensorMap ExportLibrary(const Model& model,
                             const std::vector<float>& parameters,
                             const LibraryNames& names);

// For the file's metadata: which modules are embedding and output, so that its
// import has no choice to make.
MetadataMap ExportMetadata(const LibraryNames& names);

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_LIBRARY_EXPORT_H_
