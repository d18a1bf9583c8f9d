// Examples in host memory, whatever file they came from.
#ifndef RECURVE_ENGINE_TRAIN_DATASET_H_
#define RECURVE_ENGINE_TRAIN_DATASET_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/model/model.h"
#include "engine/model/sequence_batch.h"
#include "engine/train/dataset_store.h"
#include "engine/train/vocabulary.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve {

// One long text; the target of each token is the next one.
struct TextDataset {
  std::vector<int32_t> tokens;
};

// All sequences of a file, packed in file order, none of zero length, with
// their targets. Next-token files arrive here with targets made: a sequence of
// n tokens is n - 1 rows.
struct SequenceDataset {
  SequenceBatch sequences;
  int64_t feature_size = 0;  // I; 0 for tokens
  bool per_step = false;     // targets have a row a step, else one a sequence
  Targets targets;
  int64_t target_size = 0;  // O of targets.values; 0 for classes
};

using Dataset = std::variant<TextDataset, SequenceDataset>;

// The vocabulary of a new model for this text: its characters; none for BYTES
// (ids are byte values). InvalidArgument for VOCABULARY, which needs a model
// that has one.
absl::StatusOr<std::vector<std::string>> VocabularyOfText(
    absl::string_view text, const v1::DataFormat::Text& format);

// Parses a file's bytes. `vocabulary` (of the model) may be null where the
// format does not need one. `targets` is the second file of Npy with targets,
// else empty. InvalidArgument names the line, row or byte that is wrong.
absl::StatusOr<Dataset> ParseDataset(absl::string_view bytes,
                                     absl::string_view targets,
                                     const v1::DataFormat& format,
                                     const Vocabulary* vocabulary);

// Reads and parses the file (and, for Npy, its targets).
absl::StatusOr<Dataset> ReadDataset(const DatasetStore& store,
                                    const v1::DataSource& source,
                                    const v1::DataFormat& format,
                                    const Vocabulary* vocabulary);

// InvalidArgument where the data do not fit the model: kind and size of inputs,
// token ids out of range, targets per step or sequence, classes, sizes.
absl::Status CheckDataset(const Dataset& dataset, const Model& model);

// The rows of `sequences` (indices into the dataset), in that order.
void Gather(const SequenceDataset& dataset, absl::Span<const int64_t> sequences,
            SequenceBatch* batch, Targets* targets);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_DATASET_H_
