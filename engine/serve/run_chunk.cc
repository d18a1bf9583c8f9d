#include "engine/serve/run_chunk.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/model/sequence_batch.h"
#include "engine/serve/host_rows.h"
#include "kernels/status.h"
#include "kernels/tensor.h"

namespace recurve {
namespace {

// The chunk's rows as a batch of its own.
SequenceBatch Slice(const SequenceBatch& batch, const Chunk& chunk,
                    int64_t feature_size) {
  SequenceBatch slice;
  const int64_t end = chunk.first_row + chunk.num_rows;
  slice.cu_seqlens.clear();
  for (int64_t b = 0; b <= chunk.num_sequences; ++b) {
    const int64_t offset = batch.cu_seqlens[chunk.first_sequence + b];
    slice.cu_seqlens.push_back(std::clamp(offset, chunk.first_row, end) -
                               chunk.first_row);
  }
  if (feature_size == 0) {
    slice.tokens.assign(batch.tokens.begin() + chunk.first_row,
                        batch.tokens.begin() + end);
  } else {
    slice.features.assign(
        batch.features.begin() + chunk.first_row * feature_size,
        batch.features.begin() + end * feature_size);
  }
  return slice;
}

}  // namespace

absl::Status RunChunk(const BatchRun& run, const Chunk& chunk,
                      absl::Span<float> carries, Executor& executor,
                      Backend& backend) {
  const Model& model = *run.version->model;
  const SequenceBatch slice = Slice(run.batch, chunk, model.feature_size());
  if (chunk.begins_call) model.BeginCall(carries, chunk.num_sequences);

  ForwardArgs args;
  args.batch = &slice;
  args.state = carries;
  ASSIGN_OR_RETURN(const ForwardResult result, executor.Forward(args));
  if (!carries.empty()) {
    RETURN_IF_ERROR(DownloadRows(backend, result.state, carries.data()));
  }

  std::vector<float> output, hidden;
  ChunkRows rows;
  rows.chunk = chunk;
  rows.first_output_row =
      model.pools() ? chunk.first_sequence : chunk.first_row;
  if (run.want_output) {
    ASSIGN_OR_RETURN(rows.output, OnHost(backend, result.output, output));
  }
  if (run.want_hidden) {
    ASSIGN_OR_RETURN(rows.hidden, OnHost(backend, result.hidden, hidden));
  }
  return run.consume(rows);
}

}  // namespace recurve
