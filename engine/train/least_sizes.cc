#include <algorithm>
#include <cstdint>
#include <utility>

#include "engine/train/training_sizes.h"
#include "kernels/status.h"

namespace recurve {
namespace {

using Text = v1::DataFormat::Text;

constexpr int64_t kMaxCharacterBytes = 4;  // of UTF-8

v1::ModelConfig WithLeastSizes(v1::ModelConfig config) {
  if (config.input().has_token_embedding()) {
    auto& embedding = *config.mutable_input()->mutable_token_embedding();
    if (embedding.vocabulary_size() == 0) embedding.set_vocabulary_size(1);
  }
  if (config.input().has_features()) {
    auto& features = *config.mutable_input()->mutable_features();
    if (features.size() == 0) features.set_size(1);
  }
  if (config.output().has_linear()) {
    auto& linear = *config.mutable_output()->mutable_linear();
    if (linear.size() == 0) {
      linear.set_size(linear.tied()
                          ? config.input().token_embedding().vocabulary_size()
                          : 1);
    }
  }
  return config;
}

int64_t LeastTokens(Text::Tokenization tokenization, int64_t bytes) {
  switch (tokenization) {
    case Text::BYTES:
      return bytes;
    case Text::VOCABULARY:
      return 0;  // its tokens may be long
    default:
      return bytes / kMaxCharacterBytes;
  }
}

// Of each stream, after what is set aside.
int64_t LeastSteps(const v1::TrainSpec& spec, int64_t bytes) {
  int64_t tokens = LeastTokens(spec.format().text().tokenization(), bytes) -
                   spec.held_out_characters();
  tokens -=
      static_cast<int64_t>(spec.validation().fraction() *
                           static_cast<double>(std::max<int64_t>(0, tokens)));
  return std::max<int64_t>(1, (tokens - 1) / spec.loader().batch_size());
}

// Shorter streams may come in larger micro-batches than longer ones, but none
// in smaller ones than a stream alone.
CallBounds LeastCalls(const v1::TrainSpec& spec, int64_t bytes) {
  if (!spec.format().has_text()) return {1, 1, 1, 1};
  const int64_t streams = spec.loader().batch_size();
  const int64_t unroll = spec.loader().unroll();
  const int64_t steps = LeastSteps(spec, bytes);
  if (unroll < 1) return {1, 1, 1, 1};  // the job will be refused for it
  if (steps < unroll) return {steps, 1, steps, steps};
  return {streams * unroll, streams, unroll, unroll};
}

}  // namespace

absl::StatusOr<TrainingSizes> LeastSizes(const v1::TrainSpec& spec,
                                         int64_t data_bytes,
                                         ModelExchange& models) {
  TrainingSizes sizes;
  if (spec.has_config()) {
    ASSIGN_OR_RETURN(sizes.model, Model::Create(WithLeastSizes(spec.config())));
  } else {
    ASSIGN_OR_RETURN(
        const TrainableModel model,
        models.Load(spec.from_version().empty() ? spec.model()
                                                : spec.from_version()));
    sizes.model = model.model;
  }
  sizes.calls = LeastCalls(spec, data_bytes);
  return sizes;
}

}  // namespace recurve
