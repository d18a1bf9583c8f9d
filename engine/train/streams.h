// What a trainer keeps of a batch's sequences for the next batch to go on from
// (truncated back-propagation through time).
#ifndef RECURVE_ENGINE_TRAIN_STREAMS_H_
#define RECURVE_ENGINE_TRAIN_STREAMS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "engine/model/sequence_batch.h"

namespace recurve {

// Of each sequence, in order. Without any, nothing has been seen yet.
struct Streams {
  std::vector<int64_t> positions;  // [B] rows seen
  std::vector<float> states;       // [B, state_size]; empty = zeros
};

// Where the sequences of `batch` start: at zeros, or, continued, where
// `previous` ended, as far as the model takes it over in a new call.
// FailedPrecondition for models that cannot go on and where there is nothing to
// continue, InvalidArgument for another number of sequences.
absl::StatusOr<Streams> StartStreams(const Model& model,
                                     const SequenceBatch& batch,
                                     bool continue_streams,
                                     const Streams& previous);

// The positions after `batch`, and room for the states; none for models that
// cannot go on.
Streams StreamsAfter(const Model& model, const SequenceBatch& batch,
                     const Streams& start);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_STREAMS_H_
