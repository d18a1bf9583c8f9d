// Where sequences go on from call to call (truncated back-propagation through
// time): by their place in the batch, or by names that the client gives them.
#ifndef RECURVE_ENGINE_TRAIN_STREAMS_H_
#define RECURVE_ENGINE_TRAIN_STREAMS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/model/model.h"
#include "engine/model/sequence_batch.h"

namespace recurve {

inline constexpr size_t kMaxNamedStreams = 65536;
inline constexpr size_t kMaxStreamNameBytes = 256;
// Of their states, in host memory and in every checkpoint.
inline constexpr size_t kMaxNamedStreamBytes = size_t{1} << 28;

// How far one sequence has come.
struct Stream {
  int64_t position = 0;      // rows seen
  std::vector<float> state;  // [state_size] after them; empty = zeros
};

// What calls may go on from. Bidirectional models leave nothing here.
struct Streams {
  std::vector<Stream> last;  // the sequences of the last batch, in order
  std::map<std::string, Stream> named;  // at most MaxNamedStreams
};

// How a call uses streams. Without any of it sequences start from zeros.
struct StreamUse {
  bool continue_last = false;           // go on where the last batch ended
  absl::Span<const std::string> names;  // [B], all different, or empty
  absl::Span<const std::string> ended;  // forgotten after the call
};

// Where the sequences of one call start, and room for where they end.
struct CallStreams {
  std::vector<int64_t> positions;   // [B]
  std::vector<float> states;        // [B, state_size]; empty = zeros
  std::vector<float> states_after;  // [B, state_size]; empty = not wanted
};

// kMaxNamedStreams, or what fits in kMaxNamedStreamBytes; 1 or more.
size_t MaxNamedStreams(const Model& model);

// As far as the model takes states over in a new call (Model::BeginCall).
// A name that `streams` does not know starts from zeros. InvalidArgument for
// names that are too many, empty, too long or given twice, for both ways at
// once, and for another number of sequences than the last batch had;
// FailedPrecondition for models that cannot go on and where there is nothing to
// continue; ResourceExhausted for more than MaxNamedStreams after the call.
absl::StatusOr<CallStreams> StartStreams(const Model& model,
                                         const SequenceBatch& batch,
                                         const StreamUse& use,
                                         const Streams& streams);

// After the call: its states are where its streams stand. A call without
// sequences only ends streams.
void AdvanceStreams(const SequenceBatch& batch, const StreamUse& use,
                    const CallStreams& call, Streams& streams);

// InvalidArgument for streams that no trainer of this model can have left.
absl::Status CheckStreams(const Model& model, const Streams& streams);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_STREAMS_H_
