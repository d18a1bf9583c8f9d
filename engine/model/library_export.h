// Parameters of a model as a checkpoint of the PyTorch libraries.
#ifndef RECURVE_ENGINE_MODEL_LIBRARY_EXPORT_H_
#define RECURVE_ENGINE_MODEL_LIBRARY_EXPORT_H_

#include <vector>

#include "engine/model/library_keys.h"
#include "engine/model/model.h"
#include "engine/model/safetensors.h"

namespace recurve {

// `parameters` has the model's layout, `names` come from import or
// DefaultNames. Importing the result gives the same bits back.
FloatTensorMap ExportLibrary(const Model& model,
                             const std::vector<float>& parameters,
                             const LibraryNames& names);

// Gradients (or anything else in the parameters' layout) under the libraries'
// keys and layouts; numbers that have no place there are left out.
FloatTensorMap ToLibraryLayout(const Model& model,
                               const std::vector<float>& buffer,
                               const LibraryNames& names);

// For the file's metadata: which modules are embedding and output, so that its
// import has no choice to make.
MetadataMap ExportMetadata(const LibraryNames& names);

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_LIBRARY_EXPORT_H_
