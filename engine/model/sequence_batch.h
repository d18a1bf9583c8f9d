// A ragged batch in host memory: packed, never padded.
#ifndef RECURVE_ENGINE_MODEL_SEQUENCE_BATCH_H_
#define RECURVE_ENGINE_MODEL_SEQUENCE_BATCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace recurve {

// Sequence b owns rows [cu_seqlens[b], cu_seqlens[b + 1]), time ascending. One
// of tokens and features is filled, as the model's input asks.
struct SequenceBatch {
  std::vector<int64_t> cu_seqlens = {0};  // [B + 1]
  std::vector<int32_t> tokens;            // [N]
  std::vector<float> features;            // [N, I]

  int64_t num_sequences() const {
    return static_cast<int64_t>(cu_seqlens.size()) - 1;
  }
  int64_t num_rows() const { return cu_seqlens.back(); }
};

// Targets of R rows: R = N, or B where the model pools over time.
struct Targets {
  std::vector<int32_t> classes;  // [R], cross-entropy
  std::vector<float> values;     // [R, O], squared error
  std::vector<float> weights;    // [R]; empty = all 1
};

// InvalidArgument for offsets that do not start at 0, that descend, that name
// no sequence, or, unless allowed, that name an empty one.
absl::Status CheckOffsets(const SequenceBatch& batch,
                          bool allow_empty_sequences);

// "sequence 2, step 5": where a row of a batch stands, for messages.
std::string RowPlace(const SequenceBatch& batch, int64_t row);

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_SEQUENCE_BATCH_H_
