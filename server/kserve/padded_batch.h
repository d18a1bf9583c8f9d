// Batches as the protocol has them: padded to the longest sequence. Only here
// are they padded; what is behind this edge is packed.
#ifndef RECURVE_SERVER_KSERVE_PADDED_BATCH_H_
#define RECURVE_SERVER_KSERVE_PADDED_BATCH_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/model/model.h"
#include "engine/model/sequence_batch.h"
#include "server/kserve/input_tensors.h"

namespace recurve::server::kserve {

struct PaddedBatch {
  SequenceBatch packed;
  int64_t steps = 0;  // T, of which each sequence uses the first rows
};

// InvalidArgument for inputs that the model doesn't have, other types and
// shapes than it takes, lengths outside of 1 to T, and tokens that are no
// int32; what Model::CheckBatch checks is not checked here.
absl::StatusOr<PaddedBatch> PackBatch(const Model& model,
                                      const InputTensors& inputs);

// [B, steps] rows of `row_bytes` each, of rows [N] that cu_seqlens [B + 1] cut
// into sequences of at most `steps`; 0 where there is no row.
std::string PadRows(absl::Span<const char> rows, int64_t row_bytes,
                    absl::Span<const int64_t> cu_seqlens, int64_t steps);

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_PADDED_BATCH_H_
