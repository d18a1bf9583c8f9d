// From files to examples, and whether those fit a model.
#ifndef RECURVE_ENGINE_DATA_DATASET_H_
#define RECURVE_ENGINE_DATA_DATASET_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/dataset_store.h"
#include "engine/data/sequence_dataset.h"
#include "engine/data/vocabulary.h"
#include "engine/model/model.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve {

// The vocabulary of a new model for this text: its characters; none for BYTES
// (ids are byte values). InvalidArgument for VOCABULARY, which needs a model
// that has one.
absl::StatusOr<std::vector<std::string>> VocabularyOfText(
    absl::string_view text, const v1::DataFormat::Text& format);

// What `source` and `format` name, unparsed.
struct DataFiles {
  std::string data;
  std::string targets;  // of Npy with targets; else empty
};
absl::StatusOr<DataFiles> ReadDataFiles(const DatasetStore& store,
                                        const v1::DataSource& source,
                                        const v1::DataFormat& format);

// `vocabulary` (of the model) may be null where the format does not need one.
// InvalidArgument names the line, row or byte that is wrong.
absl::StatusOr<Dataset> ParseDataset(const DataFiles& files,
                                     const v1::DataFormat& format,
                                     const Vocabulary* vocabulary);

// Both.
absl::StatusOr<Dataset> ReadDataset(const DatasetStore& store,
                                    const v1::DataSource& source,
                                    const v1::DataFormat& format,
                                    const Vocabulary* vocabulary);

// InvalidArgument where the data do not fit the model: kind and size of inputs,
// token ids out of range, targets per step or sequence, classes, sizes.
absl::Status CheckDataset(const Dataset& dataset, const Model& model);

}  // namespace recurve

#endif  // RECURVE_ENGINE_DATA_DATASET_H_
