#include "engine/train/streams.h"

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace recurve {

absl::StatusOr<Streams> StartStreams(const Model& model,
                                     const SequenceBatch& batch,
                                     bool continue_streams,
                                     const Streams& previous) {
  const size_t num_sequences = batch.num_sequences();
  if (!continue_streams) {
    return Streams{std::vector<int64_t>(num_sequences, 0), {}};
  }
  if (model.bidirectional()) {
    return absl::FailedPreconditionError(
        "continue_streams: a bidirectional model has no state to go on from");
  }
  if (previous.positions.empty()) {
    return absl::FailedPreconditionError(
        "continue_streams: there is no batch before this one");
  }
  if (previous.positions.size() != num_sequences) {
    return absl::InvalidArgumentError(absl::StrCat(
        "continue_streams: the batch has ", num_sequences,
        " sequences, the one before it had ", previous.positions.size()));
  }
  Streams start = previous;
  model.BeginCall(absl::MakeSpan(start.states));
  return start;
}

Streams StreamsAfter(const Model& model, const SequenceBatch& batch,
                     const Streams& start) {
  Streams after;
  if (model.bidirectional()) return after;
  const int64_t num_sequences = batch.num_sequences();
  for (int64_t b = 0; b < num_sequences; ++b) {
    after.positions.push_back(start.positions[b] + batch.cu_seqlens[b + 1] -
                              batch.cu_seqlens[b]);
  }
  after.states.resize(num_sequences * model.state_size());
  return after;
}

}  // namespace recurve
