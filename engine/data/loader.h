// Batches from a dataset, in an order that is a function of the data, the
// LoaderConfig and the seed alone.
//
// Text of n tokens: batch_size streams of S = floor((n - 1) / batch_size)
// steps; stream b reads tokens [b S, b S + S) and predicts [b S + 1, b S + S +
// 1). Batch i of an epoch has steps [i unroll, min((i + 1) unroll, S)) of every
// stream, sequence b being stream b. continue_streams is false for an epoch's
// first batch and true for the others. The last batch is shorter where unroll
// does not divide S, or left out with drop_last.
//
// Sequences: the file's order, or, shuffled, a Fisher-Yates permutation drawn
// from Philox by (seed, epoch); batch i has entries [i batch_size,
// (i + 1) batch_size) of it. The last batch is smaller, or left out with
// drop_last. continue_streams is always false.
#ifndef RECURVE_ENGINE_DATA_LOADER_H_
#define RECURVE_ENGINE_DATA_LOADER_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/data/batches.h"
#include "engine/data/sequence_dataset.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve {

// Names the batch that Next returns next.
struct LoaderCursor {
  int64_t epoch = 0;
  int64_t batch = 0;  // within the epoch, below batches_per_epoch
};

// Makes batches ahead on its own thread. Epochs follow each other without end.
// Used by one thread at a time.
class Loader {
 public:
  static constexpr int kPrefetch = 4;  // batches made ahead

  // Errors are BatchMaker::Create's.
  static absl::StatusOr<std::unique_ptr<Loader>> Create(
      std::shared_ptr<const Dataset> dataset, const v1::LoaderConfig& config,
      uint64_t seed);
  ~Loader();

  Batch Next();
  LoaderCursor cursor() const;
  // OutOfRange for a batch that no epoch has.
  absl::Status Seek(LoaderCursor cursor);
  int64_t batches_per_epoch() const;

 private:
  class Impl;
  explicit Loader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_DATA_LOADER_H_
