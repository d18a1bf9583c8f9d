#include "engine/data/batches.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/data/shuffle.h"
#include "kernels/status.h"

namespace recurve {
namespace {

int64_t NumBatches(int64_t count, int64_t size, bool drop_last) {
  return drop_last ? count / size : (count + size - 1) / size;
}

// Parallel streams through one text.
class TextBatches final : public BatchMaker {
 public:
  TextBatches(std::shared_ptr<const Dataset> dataset,
              const v1::LoaderConfig& config)
      : dataset_(std::move(dataset)),
        tokens_(std::get<TextDataset>(*dataset_).tokens),
        streams_(config.batch_size()),
        unroll_(config.unroll()),
        stream_length_(
            std::max<int64_t>(0, static_cast<int64_t>(tokens_.size()) - 1) /
            streams_),
        batches_(NumBatches(stream_length_, unroll_, config.drop_last())) {}

  int64_t batches_per_epoch() const override { return batches_; }

  Batch Make(int64_t epoch, int64_t index) override {
    Batch batch;
    batch.epoch = epoch;
    batch.continue_streams = index > 0;
    const int64_t first = index * unroll_;
    const int64_t steps = std::min(unroll_, stream_length_ - first);
    for (int64_t stream = 0; stream < streams_; ++stream) {
      const auto begin = tokens_.begin() + stream * stream_length_ + first;
      auto& inputs = batch.sequences.tokens;
      auto& targets = batch.targets.classes;
      inputs.insert(inputs.end(), begin, begin + steps);
      targets.insert(targets.end(), begin + 1, begin + steps + 1);
      batch.sequences.cu_seqlens.push_back((stream + 1) * steps);
    }
    return batch;
  }

 private:
  const std::shared_ptr<const Dataset> dataset_;
  const std::vector<int32_t>& tokens_;
  const int64_t streams_;
  const int64_t unroll_;
  const int64_t stream_length_;
  const int64_t batches_;
};

// Appends rows [begin, end) of a matrix with `width` columns; nothing where the
// matrix is absent.
template <typename T>
void AppendRows(const std::vector<T>& from, int64_t begin, int64_t end,
                int64_t width, std::vector<T>* to) {
  if (from.empty()) return;
  to->insert(to->end(), from.begin() + begin * width,
             from.begin() + end * width);
}

void AppendSequence(const SequenceDataset& data, int64_t sequence,
                    Batch* batch) {
  const std::vector<int64_t>& offsets = data.sequences.cu_seqlens;
  const int64_t begin = offsets[sequence], end = offsets[sequence + 1];
  SequenceBatch& out = batch->sequences;
  AppendRows(data.sequences.tokens, begin, end, 1, &out.tokens);
  AppendRows(data.sequences.features, begin, end, data.feature_size,
             &out.features);
  out.cu_seqlens.push_back(out.num_rows() + end - begin);

  const int64_t first = data.per_step ? begin : sequence;
  const int64_t last = data.per_step ? end : sequence + 1;
  AppendRows(data.targets.classes, first, last, 1, &batch->targets.classes);
  AppendRows(data.targets.values, first, last, data.target_size,
             &batch->targets.values);
  AppendRows(data.targets.weights, first, last, 1, &batch->targets.weights);
}

// Whole sequences, batch_size at a time.
class SequenceBatches final : public BatchMaker {
 public:
  SequenceBatches(std::shared_ptr<const Dataset> dataset,
                  const v1::LoaderConfig& config, uint64_t seed)
      : dataset_(std::move(dataset)),
        data_(std::get<SequenceDataset>(*dataset_)),
        size_(config.batch_size()),
        shuffle_(!config.has_shuffle() || config.shuffle()),
        seed_(seed),
        batches_(NumBatches(data_.sequences.num_sequences(), size_,
                            config.drop_last())) {}

  int64_t batches_per_epoch() const override { return batches_; }

  Batch Make(int64_t epoch, int64_t index) override {
    if (shuffle_ && epoch != order_epoch_) {
      order_ = Permutation(data_.sequences.num_sequences(), seed_, epoch);
      order_epoch_ = epoch;
    }
    Batch batch;
    batch.epoch = epoch;
    const int64_t end =
        std::min((index + 1) * size_, data_.sequences.num_sequences());
    for (int64_t i = index * size_; i < end; ++i) {
      AppendSequence(data_, shuffle_ ? order_[i] : i, &batch);
    }
    return batch;
  }

 private:
  const std::shared_ptr<const Dataset> dataset_;
  const SequenceDataset& data_;
  const int64_t size_;
  const bool shuffle_;
  const uint64_t seed_;
  const int64_t batches_;
  std::vector<int64_t> order_;
  int64_t order_epoch_ = -1;
};

absl::Status CheckTextConfig(const v1::LoaderConfig& config) {
  if (config.unroll() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("loader.unroll: ", config.unroll(),
                     "; text needs at least 1 step a batch"));
  }
  if (int64_t{config.unroll()} * config.batch_size() > kMaxBatchRows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "loader: batch_size times unroll is above ", kMaxBatchRows));
  }
  if (config.shuffle()) {
    return absl::InvalidArgumentError(
        "loader.shuffle: for files of sequences only; text keeps its order");
  }
  return absl::OkStatus();
}

absl::Status CheckSequenceConfig(const v1::LoaderConfig& config) {
  if (config.unroll() == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("loader.unroll: ", config.unroll(),
                   "; for text only, sequences are never cut"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<BatchMaker>> BatchMaker::Create(
    std::shared_ptr<const Dataset> dataset, const v1::LoaderConfig& config,
    uint64_t seed) {
  if (config.batch_size() < 1 || config.batch_size() > kMaxBatchSize) {
    return absl::InvalidArgumentError(
        absl::StrCat("loader.batch_size: ", config.batch_size(),
                     " is not in [1, ", kMaxBatchSize, "]"));
  }
  const bool text = std::holds_alternative<TextDataset>(*dataset);
  RETURN_IF_ERROR(text ? CheckTextConfig(config) : CheckSequenceConfig(config));
  std::unique_ptr<BatchMaker> maker;
  if (text) {
    maker = std::make_unique<TextBatches>(std::move(dataset), config);
  } else {
    maker = std::make_unique<SequenceBatches>(std::move(dataset), config, seed);
  }
  if (maker->batches_per_epoch() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "loader: the data are too short for one batch of batch_size ",
        config.batch_size(), text ? " streams" : " sequences"));
  }
  return maker;
}

}  // namespace recurve
