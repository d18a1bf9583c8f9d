#include "engine/train/streams.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/status.h"

namespace recurve {
namespace {

absl::Status CheckName(absl::string_view field, const std::string& name,
                       std::set<absl::string_view>& seen) {
  if (name.empty() || name.size() > kMaxStreamNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": a name has ", name.size(),
                     " bytes, must have 1 to ", kMaxStreamNameBytes));
  }
  if (seen.insert(name).second) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": \"", name, "\" is there twice"));
}

absl::Status CheckNames(absl::string_view field,
                        absl::Span<const std::string> names) {
  std::set<absl::string_view> seen;
  for (const std::string& name : names) {
    RETURN_IF_ERROR(CheckName(field, name, seen));
  }
  return absl::OkStatus();
}

absl::Status CheckContinued(size_t num_sequences, const Streams& streams) {
  if (streams.last.empty()) {
    return absl::FailedPreconditionError(
        "continue_streams: there is no batch before this one");
  }
  if (streams.last.size() == num_sequences) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("continue_streams: the batch has ", num_sequences,
                   " sequences, the one before it had ", streams.last.size()));
}

// Names that are forgotten after the call make no room within it.
absl::Status CheckRoom(const Model& model, const StreamUse& use,
                       const Streams& streams) {
  const size_t added = std::count_if(
      use.names.begin(), use.names.end(), [&](const std::string& name) {
        return streams.named.find(name) == streams.named.end();
      });
  const size_t most = MaxNamedStreams(model);
  if (added == 0 || streams.named.size() + added <= most) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("stream_ids: ", added, " new ones with ",
                   streams.named.size(), " kept already, the limit is ", most,
                   " for this model; end some with end_stream_ids"));
}

absl::Status CheckUse(const Model& model, size_t num_sequences,
                      const StreamUse& use, const Streams& streams) {
  RETURN_IF_ERROR(CheckNames("stream_ids", use.names));
  RETURN_IF_ERROR(CheckNames("end_stream_ids", use.ended));
  const bool named = !use.names.empty();
  if (named && use.continue_last) {
    return absl::InvalidArgumentError(
        "stream_ids: cannot be given together with continue_streams");
  }
  if (named && use.names.size() != num_sequences) {
    return absl::InvalidArgumentError(
        absl::StrCat("stream_ids: ", use.names.size(), " names for ",
                     num_sequences, " sequences"));
  }
  if (model.bidirectional() && (named || use.continue_last)) {
    return absl::FailedPreconditionError(
        absl::StrCat(named ? "stream_ids" : "continue_streams",
                     ": a bidirectional model has no state to go on from"));
  }
  if (use.continue_last) return CheckContinued(num_sequences, streams);
  return CheckRoom(model, use, streams);
}

// Where sequence b of the call goes on; null = from zeros.
const Stream* Find(const StreamUse& use, const Streams& streams, int64_t b) {
  if (use.continue_last) return &streams.last[b];
  if (use.names.empty()) return nullptr;
  const auto it = streams.named.find(use.names[b]);
  return it == streams.named.end() ? nullptr : &it->second;
}

absl::Status CheckStream(const Model& model, absl::string_view name,
                         const Stream& stream) {
  const int64_t size = stream.state.size();
  if (stream.position >= 0 && (size == 0 || size == model.state_size())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "streams: ", name, " has position ", stream.position, " and a state of ",
      size, " numbers, the model's has ", model.state_size()));
}

}  // namespace

size_t MaxNamedStreams(const Model& model) {
  const size_t state_bytes =
      std::max<int64_t>(model.state_size(), 1) * sizeof(float);
  return std::clamp<size_t>(kMaxNamedStreamBytes / state_bytes, 1,
                            kMaxNamedStreams);
}

absl::StatusOr<CallStreams> StartStreams(const Model& model,
                                         const SequenceBatch& batch,
                                         const StreamUse& use,
                                         const Streams& streams) {
  const int64_t num_sequences = batch.num_sequences();
  RETURN_IF_ERROR(CheckUse(model, num_sequences, use, streams));
  CallStreams call;
  call.positions.resize(num_sequences);
  if (!model.bidirectional()) {
    call.states_after.resize(num_sequences * model.state_size());
  }
  if (!use.continue_last && use.names.empty()) return call;

  call.states.resize(num_sequences * model.state_size());
  for (int64_t b = 0; b < num_sequences; ++b) {
    const Stream* stream = Find(use, streams, b);
    if (stream == nullptr) continue;
    call.positions[b] = stream->position;
    std::copy(stream->state.begin(), stream->state.end(),
              call.states.begin() + b * model.state_size());
  }
  model.BeginCall(absl::MakeSpan(call.states), num_sequences);
  return call;
}

void AdvanceStreams(const SequenceBatch& batch, const StreamUse& use,
                    const CallStreams& call, Streams& streams) {
  const int64_t num_sequences = batch.num_sequences();
  if (num_sequences > 0) streams.last.clear();
  const bool kept = !call.states_after.empty();
  for (int64_t b = 0; kept && b < num_sequences; ++b) {
    const int64_t size = call.states_after.size() / num_sequences;
    const auto state = call.states_after.begin() + b * size;
    const int64_t rows = batch.cu_seqlens[b + 1] - batch.cu_seqlens[b];
    streams.last.push_back({call.positions[b] + rows, {state, state + size}});
    if (!use.names.empty()) streams.named[use.names[b]] = streams.last.back();
  }
  for (const std::string& name : use.ended) streams.named.erase(name);
}

absl::Status CheckStreams(const Model& model, const Streams& streams) {
  const size_t count = streams.last.size() + streams.named.size();
  if (model.bidirectional() && count > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "streams: ", count, " of them, a bidirectional model has none"));
  }
  if (streams.named.size() > kMaxNamedStreams) {
    return absl::InvalidArgumentError(
        absl::StrCat("streams: ", streams.named.size(),
                     " have a name, the limit is ", kMaxNamedStreams));
  }
  for (size_t b = 0; b < streams.last.size(); ++b) {
    RETURN_IF_ERROR(
        CheckStream(model, absl::StrCat("sequence ", b), streams.last[b]));
  }
  for (const auto& [name, stream] : streams.named) {
    RETURN_IF_ERROR(CheckStream(model, absl::StrCat("\"", name, "\""), stream));
  }
  return absl::OkStatus();
}

}  // namespace recurve
