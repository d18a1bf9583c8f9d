// How a batch is cut into forward passes: a pure function of the batch.
#ifndef RECURVE_ENGINE_SERVE_CUT_H_
#define RECURVE_ENGINE_SERVE_CUT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace recurve {

struct CutOptions {
  // Rows in one forward pass. More rows use the product library better; fewer
  // let other requests in sooner.
  int64_t max_rows = 1024;
  // Whether a longer sequence may be cut in time; else it is one pass.
  bool in_time = true;
  // A new call of the model begins every `call_rows` rows of a sequence (what
  // a client does that sends its text in pieces); 0 = a sequence is one call.
  // REQUIRES: in_time.
  int64_t call_rows = 0;
};

// Rows of consecutive whole sequences, or a part of one sequence, that run in
// one forward pass.
struct Chunk {
  int64_t first_sequence = 0;
  int64_t num_sequences = 0;
  int64_t first_row = 0;
  int64_t num_rows = 0;
  bool begins_call = true;  // else the engine's own cut: all state carries over
};

// Chunks that run one after another with the state carried on. Chains do not
// depend on each other.
using Chain = std::vector<Chunk>;

// `cu_seqlens` as SequenceBatch's, every length at least 1.
std::vector<Chain> CutBatch(absl::Span<const int64_t> cu_seqlens,
                            const CutOptions& options);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_CUT_H_
