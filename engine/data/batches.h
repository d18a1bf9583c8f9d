// Which examples make which batch: a pure function of the data, the
// LoaderConfig, the seed and the batch's place. The order is documented in
// loader.h.
#ifndef RECURVE_ENGINE_DATA_BATCHES_H_
#define RECURVE_ENGINE_DATA_BATCHES_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/data/sequence_dataset.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve {

struct Batch {
  SequenceBatch sequences;
  Targets targets;
  bool continue_streams = false;
  int64_t epoch = 0;
};

inline constexpr int64_t kMaxBatchSize = 1 << 20;  // sequences
inline constexpr int64_t kMaxBatchRows = 1 << 26;  // of a text's batch

// Makes the batches of a dataset one by one. For one thread.
class BatchMaker {
 public:
  // InvalidArgument for impossible sizes, settings of the other kind of data
  // (unroll, shuffle) and data too short for one batch.
  static absl::StatusOr<std::unique_ptr<BatchMaker>> Create(
      std::shared_ptr<const Dataset> dataset, const v1::LoaderConfig& config,
      uint64_t seed);
  virtual ~BatchMaker() = default;

  virtual int64_t batches_per_epoch() const = 0;
  // Batch number `index` of the epoch, 0 <= index < batches_per_epoch(). Fast
  // when called in order.
  virtual Batch Make(int64_t epoch, int64_t index) = 0;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_DATA_BATCHES_H_
