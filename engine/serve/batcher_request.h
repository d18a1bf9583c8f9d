// What a batcher is asked to run.
#ifndef RECURVE_ENGINE_SERVE_BATCHER_REQUEST_H_
#define RECURVE_ENGINE_SERVE_BATCHER_REQUEST_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/model/sequence_batch.h"
#include "engine/serve/batch_run.h"
#include "engine/serve/call_control.h"
#include "engine/serve/carried_state.h"
#include "engine/serve/model_version.h"

namespace recurve {

struct BatcherRequest {
  ModelHandle version;
  SequenceBatch batch;  // passes Model::CheckBatch without empty sequences
  // [B], each used by no other request; of the version's carry_size. Empty:
  // from zeros, and nothing is kept.
  std::vector<std::shared_ptr<CarriedState>> states;
  // Starts from the carries before the last request that was committed, and
  // commits nothing. REQUIRES: can_replay() of all states.
  bool replay = false;
  bool want_output = true;
  bool want_hidden = false;
  // Once, before Enqueue returns and before any row is consumed, if the request
  // is not refused: what results need memory for. May be empty.
  std::function<void()> accepted;
  // On devices' threads, for disjoint rows at the same time; where a pooling
  // model is cut in time, again with later outputs of the same sequence, the
  // last of which holds. An error ends the request.
  std::function<absl::Status(const ChunkRows&)> consume;
  // Looked at before each pass, and from time to time while it waits.
  CallControl control;
  int priority = 1;  // 1 goes first
  // Who it is for: the flows share a device equally. Empty: a flow of its own.
  std::string flow;
  // That the caller keeps for its results, for max_enqueued_bytes.
  int64_t result_bytes = 0;
  // Once, on any thread, or before Enqueue returns. OK: all rows were consumed
  // and the states are committed. The first error otherwise, and the states are
  // as they were.
  std::function<void(absl::Status)> done;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_BATCHER_REQUEST_H_
