// A batch that is to run forward, and what comes out of it.
#ifndef RECURVE_ENGINE_SERVE_BATCH_RUN_H_
#define RECURVE_ENGINE_SERVE_BATCH_RUN_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/sequence_batch.h"
#include "engine/schedule/held_memory.h"
#include "engine/serve/call_control.h"
#include "engine/serve/cut.h"
#include "engine/serve/model_version.h"
#include "kernels/tensor.h"

namespace recurve {

// Host memory, for the time of the call it is given to.
struct ChunkRows {
  Chunk chunk;
  // First row of `output` in the batch's outputs: the chunk's first sequence
  // where the model pools, else its first row.
  int64_t first_output_row = 0;
  Matrix<const float> output;  // absent unless wanted
  Matrix<const float> hidden;  // [chunk.num_rows, C]; absent unless wanted
};

struct BatchRun {
  ModelHandle version;
  SequenceBatch batch;  // passes Model::CheckBatch without empty sequences
  // [B, state_size] before the batch as the call before left it (BeginCall is
  // applied here); empty = zeros. A new call pools anew.
  std::vector<float> state;
  int64_t call_rows = 0;  // as CutOptions; 0 for models that are not cut
  bool want_output = true;
  bool want_hidden = false;
  bool want_state = false;
  // On devices' threads, for disjoint rows at the same time; where a pooling
  // model is cut in time, again with later outputs of the same sequence, the
  // last of which holds. An error ends the run.
  std::function<absl::Status(const ChunkRows&)> consume;
  // Looked at before each chunk.
  CallControl control;
  // Runs on that device within the memory that the caller holds there, and so
  // waits for none; by one run at a time, which it outlives. Null: any devices.
  const HeldMemory* memory = nullptr;
  // Once, on a device's thread (or in Start if nothing could be started): the
  // states [B, state_size] after the batch if wanted. The first error wins; no
  // chunk runs any more.
  std::function<void(absl::StatusOr<std::vector<float>> state)> done;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_BATCH_RUN_H_
