// One forward pass over rows of many requests.
#ifndef RECURVE_ENGINE_SERVE_PACKED_PASS_H_
#define RECURVE_ENGINE_SERVE_PACKED_PASS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/model/executor.h"
#include "engine/model/model.h"
#include "engine/model/sequence_batch.h"
#include "engine/serve/pass_carries.h"
#include "engine/serve/serving_statistics.h"
#include "engine/serve/state_pool.h"
#include "engine/serve/version_queue.h"
#include "kernels/backend.h"

namespace recurve {

// Keeps its host memory from pass to pass. Belongs to the thread of a device.
class PackedPass {
 public:
  // With `pad_to_longest` every sequence runs at the length of the longest.
  // `pool`, the device's, outlives it.
  PackedPass(bool pad_to_longest, StatePool& pool)
      : pad_(pad_to_longest), pool_(pool) {}

  // Packs the parts, runs them forward, writes their carries and hands their
  // rows out. A status for each part: where its request's consume fails, that
  // request's parts alone have it.
  const std::vector<absl::Status>& Run(const Model& model,
                                       absl::Span<const TakenPart> parts,
                                       Executor& executor, Backend& backend,
                                       PassTimes& times);

 private:
  void Pack(const Model& model, absl::Span<const TakenPart> parts);
  void PackRows(const Model& model, const TakenPart& part, int64_t rows);
  absl::Status Forward(absl::Span<const TakenPart> parts, Executor& executor,
                       Backend& backend);
  void HandOut(const Model& model, absl::Span<const TakenPart> parts);
  void HandOut(const Model& model, absl::Span<const TakenPart> parts,
               size_t first, size_t count);
  void ShrinkBuffers();

  const bool pad_;
  StatePool& pool_;
  SequenceBatch batch_;
  PassCarries carries_;
  std::vector<float> output_buffer_, hidden_buffer_;
  Matrix<const float> output_, hidden_;
  std::vector<absl::Status> statuses_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_PACKED_PASS_H_
