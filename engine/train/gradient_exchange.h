// One device's part in summing gradients over all devices: each device sums one
// shard of the parameters, in the order of the gradient tree.
#ifndef RECURVE_ENGINE_TRAIN_GRADIENT_EXCHANGE_H_
#define RECURVE_ENGINE_TRAIN_GRADIENT_EXCHANGE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/schedule/partition.h"
#include "engine/train/device_array.h"
#include "kernels/backend.h"
#include "kernels/communicator.h"

namespace recurve {

// Belongs to its device's thread. The ranks make the same calls in the same
// order, as with the communicator.
class GradientExchange {
 public:
  // `backend` outlives the exchange.
  GradientExchange(Backend& backend, int64_t count, int rank, int world_size);

  Range shard() const { return {offsets_[rank_], offsets_[rank_ + 1]}; }

  // Makes room for that many sums over subtrees, of all ranks together; nothing
  // for a lone device.
  absl::Status Reserve(int64_t num_pieces);

  // The sum over all micro-batches, of this device's shard; device memory,
  // valid until the next call, and free to be changed.
  // subtrees[r] are the maximal subtrees of rank r, partials[k] this device's
  // sum, of all parameters, over its subtree k.
  absl::StatusOr<float*> ReduceShard(
      Communicator& communicator, int64_t num_micro_batches,
      absl::Span<const std::vector<Range>> subtrees,
      absl::Span<float* const> partials);

  // Puts every device's `shard_sum` together in `sum`.
  absl::Status Gather(Communicator& communicator, const float* shard_sum,
                      float* sum);

 private:
  float* piece(int64_t index) const {
    return pieces_.data() + index * shard().size();
  }
  absl::Status ExchangePieces(Communicator& communicator,
                              absl::Span<const std::vector<Range>> subtrees,
                              absl::Span<float* const> partials);
  absl::StatusOr<float*> SumPieces(
      int64_t num_micro_batches, absl::Span<const std::vector<Range>> subtrees);

  Backend& backend_;
  const int rank_;
  const std::vector<int64_t> offsets_;
  DeviceArray pieces_;  // [subtrees of all ranks, shard]
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_GRADIENT_EXCHANGE_H_
