// Checkpoints of the PyTorch libraries as parameters of a model.
#ifndef RECURVE_ENGINE_MODEL_LIBRARY_IMPORT_H_
#define RECURVE_ENGINE_MODEL_LIBRARY_IMPORT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/library_keys.h"
#include "engine/model/model.h"
#include "engine/model/safetensors.h"

namespace recurve {

struct ImportOptions {
  // Module names (`encoder` or `encoder.`) of embedding and output, for
  // checkpoints whose shapes and names leave a choice. Empty = found.
  std::string embedding_key;
  std::string output_key;
};

struct ImportedModel {
  std::vector<float> parameters;  // Model::parameters() layout
  LibraryNames names;             // for exporting under the same keys
};

// Prefixes are found from the keys: blocks by the libraries' own key patterns
// (several blocks by their names), embedding and output among what remains by
// their shapes, and where those leave a choice by their names. Every key must
// be accounted for. InvalidArgument lists the missing, surplus and misshapen
// ones with what was expected; a weight that is not finite; a choice that only
// `options` can make; and what is recognised but cannot be run: SRU++, layer
// norms and weight norms of sru up to 2.1.7.
absl::StatusOr<ImportedModel> ImportLibrary(const Model& model,
                                            const TensorMap& tensors,
                                            const ImportOptions& options);

// The options that ExportMetadata (library_export.h) wrote; empty if it did
// not.
ImportOptions OptionsFromMetadata(const MetadataMap& metadata);

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_LIBRARY_IMPORT_H_
