#include "engine/serve/packed_pass.h"

#include <algorithm>

#include "absl/time/time.h"
#include "engine/schedule/device.h"
#include "engine/serve/batch_run.h"
#include "engine/serve/host_rows.h"
#include "kernels/status.h"
#include "kernels/tensor.h"

namespace recurve {
namespace {

// Host memory beyond this goes after the pass that needed it.
constexpr size_t kKeptFloats = size_t{4} << 20;

bool AnyWants(absl::Span<const TakenPart> parts, bool BatcherRequest::*what) {
  return std::any_of(parts.begin(), parts.end(), [&](const TakenPart& part) {
    return part.request->request.*what;
  });
}

// Whether the second part is the sequence after the first, both whole.
bool GoOn(const TakenPart& first, const TakenPart& second) {
  const auto is_whole = [](const TakenPart& part) {
    return part.rows == part.request->end(part.part.sequence) -
                            part.request->begin(part.part.sequence);
  };
  return first.request == second.request &&
         first.part.sequence + 1 == second.part.sequence && is_whole(first) &&
         is_whole(second);
}

// Adds the time since the last lap.
class Laps {
 public:
  void Lap(absl::Duration& time) {
    const absl::Duration now = MonotonicTime();
    time += now - last_;
    last_ = now;
  }

 private:
  absl::Duration last_ = MonotonicTime();
};

}  // namespace

const std::vector<absl::Status>& PackedPass::Run(
    const Model& model, absl::Span<const TakenPart> parts, Executor& executor,
    Backend& backend, PassTimes& times) {
  Laps laps;
  Pack(model, parts);
  absl::Status status =
      carries_.Pack(parts, model.carry_size(), pool_, backend);
  laps.Lap(times.input);
  if (status.ok()) status = Forward(parts, executor, backend);
  laps.Lap(times.infer);
  statuses_.assign(parts.size(), status);
  if (status.ok()) HandOut(model, parts);
  ShrinkBuffers();
  laps.Lap(times.output);
  return statuses_;
}

void PackedPass::Pack(const Model& model, absl::Span<const TakenPart> parts) {
  batch_.cu_seqlens.assign(1, 0);
  batch_.tokens.clear();
  batch_.features.clear();
  int64_t longest = 0;
  for (const TakenPart& part : parts) longest = std::max(longest, part.rows);
  for (const TakenPart& part : parts) {
    PackRows(model, part, pad_ ? longest : part.rows);
  }
}

void PackedPass::PackRows(const Model& model, const TakenPart& part,
                          int64_t rows) {
  const SequenceBatch& from = part.request->request.batch;
  const int64_t row = part.part.row;
  const int64_t end = batch_.cu_seqlens.back() + rows;
  batch_.cu_seqlens.push_back(end);
  if (model.takes_tokens()) {
    batch_.tokens.insert(batch_.tokens.end(), from.tokens.begin() + row,
                         from.tokens.begin() + row + part.rows);
    batch_.tokens.resize(end);
  } else {
    const int64_t size = model.feature_size();
    batch_.features.insert(batch_.features.end(),
                           from.features.begin() + row * size,
                           from.features.begin() + (row + part.rows) * size);
    batch_.features.resize(end * size);
  }
}

absl::Status PackedPass::Forward(absl::Span<const TakenPart> parts,
                                 Executor& executor, Backend& backend) {
  ForwardArgs args;
  args.batch = &batch_;
  args.state = carries_.on_host();
  args.place_state = [&](Matrix<float> state) {
    return carries_.Gather(state, backend);
  };
  ASSIGN_OR_RETURN(const ForwardResult result, executor.Forward(args));
  if (carries_.any()) {
    RETURN_IF_ERROR(carries_.Keep(parts, result.state, backend));
  }
  if (AnyWants(parts, &BatcherRequest::want_output)) {
    ASSIGN_OR_RETURN(output_, OnHost(backend, result.output, output_buffer_));
  }
  if (AnyWants(parts, &BatcherRequest::want_hidden)) {
    ASSIGN_OR_RETURN(hidden_, OnHost(backend, result.hidden, hidden_buffer_));
  }
  return absl::OkStatus();
}

// Neighbours in a request's batch together.
void PackedPass::HandOut(const Model& model,
                         absl::Span<const TakenPart> parts) {
  for (size_t first = 0, end = 1; first < parts.size(); first = end++) {
    while (!pad_ && end < parts.size() && GoOn(parts[end - 1], parts[end])) {
      ++end;
    }
    HandOut(model, parts, first, end - first);
  }
}

void PackedPass::HandOut(const Model& model, absl::Span<const TakenPart> parts,
                         size_t first, size_t count) {
  const TakenPart& part = parts[first];
  const BatcherRequest& request = part.request->request;
  ChunkRows rows;
  rows.chunk.first_sequence = part.part.sequence;
  rows.chunk.num_sequences = static_cast<int64_t>(count);
  rows.chunk.first_row = part.part.row;
  for (size_t i = first; i < first + count; ++i) {
    rows.chunk.num_rows += parts[i].rows;
  }
  rows.chunk.begins_call =
      part.part.row == part.request->begin(part.part.sequence);
  const auto first_sequence = static_cast<int64_t>(first);
  const int64_t first_row = batch_.cu_seqlens[first];
  rows.first_output_row = model.pools() ? part.part.sequence : part.part.row;
  if (request.want_output) {
    rows.output =
        model.pools()
            ? Matrix<const float>(output_.row(first_sequence),
                                  rows.chunk.num_sequences, output_.cols)
            : Matrix<const float>(output_.row(first_row), rows.chunk.num_rows,
                                  output_.cols);
  }
  if (request.want_hidden) {
    rows.hidden = Matrix<const float>(hidden_.row(first_row),
                                      rows.chunk.num_rows, hidden_.cols);
  }
  const absl::Status status = request.consume(rows);
  if (!status.ok()) {
    std::fill_n(statuses_.begin() + static_cast<std::ptrdiff_t>(first), count,
                status);
  }
}

void PackedPass::ShrinkBuffers() {
  for (std::vector<float>* buffer :
       {&output_buffer_, &hidden_buffer_, &batch_.features}) {
    if (buffer->capacity() > kKeptFloats) std::vector<float>().swap(*buffer);
  }
}

}  // namespace recurve
