// One chunk of a run on a device.
#ifndef RECURVE_ENGINE_SERVE_RUN_CHUNK_H_
#define RECURVE_ENGINE_SERVE_RUN_CHUNK_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/model/executor.h"
#include "engine/serve/batch_run.h"
#include "engine/serve/cut.h"
#include "kernels/backend.h"

namespace recurve {

// On the device's thread: runs the chunk's rows forward and gives run.consume
// what it wants of them. `carries` [chunk.num_sequences, carry_size] are before
// and after; empty = zeros that nobody asks for.
absl::Status RunChunk(const BatchRun& run, const Chunk& chunk,
                      absl::Span<float> carries, Executor& executor,
                      Backend& backend);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_RUN_CHUNK_H_
