// Examples in host memory, whatever file they came from.
#ifndef RECURVE_ENGINE_DATA_SEQUENCE_DATASET_H_
#define RECURVE_ENGINE_DATA_SEQUENCE_DATASET_H_

#include <cstdint>
#include <variant>
#include <vector>

#include "engine/model/sequence_batch.h"

namespace recurve {

// One long text; the target of each token is the next one.
struct TextDataset {
  std::vector<int32_t> tokens;
};

// All sequences of a file, packed in file order, none of zero length, with
// their targets. Where a file has none, each step's target is the next token,
// made here already: a sequence of n tokens is n - 1 rows.
struct SequenceDataset {
  SequenceBatch sequences;
  int64_t feature_size = 0;  // I; 0 for tokens
  bool per_step = false;     // targets have a row a step, else one a sequence
  Targets targets;
  int64_t target_size = 0;  // O of targets.values; 0 for classes
  bool next_token = false;  // the targets were made so
};

using Dataset = std::variant<TextDataset, SequenceDataset>;

}  // namespace recurve

#endif  // RECURVE_ENGINE_DATA_SEQUENCE_DATASET_H_
