// A ragged batch in host memory: packed, never padded.
#ifndef RECURVE_ENGINE_MODEL_SEQUENCE_BATCH_H_
#define RECURVE_ENGINE_MODEL_SEQUENCE_BATCH_H_

#include <cstdint>
#include <vector>

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

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_SEQUENCE_BATCH_H_
