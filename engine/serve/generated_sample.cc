#include "engine/serve/generated_sample.h"

#include <utility>

#include "engine/serve/token_text.h"
#include "kernels/status.h"

namespace recurve {

GeneratedSample::GeneratedSample(const ModelVersion& version, int64_t index,
                                 absl::Span<const int32_t> prompt,
                                 SampleOptions options)
    : version_(version),
      index_(index),
      options_(std::move(options)),
      seen_(version.model->vocabulary_size()),
      matcher_(options_.stops) {
  for (const int32_t token : prompt) seen_[token] = true;
}

absl::StatusOr<GeneratedPiece> GeneratedSample::Next(
    absl::Span<const float> logits) {
  RETURN_IF_ERROR(CheckFinite(logits));
  const SamplingOptions& sampling = options_.sampling;
  last_token_ = DrawToken(logits, seen_, sampling,
                          SamplingUniform(sampling.seed, index_, num_tokens_));
  seen_[last_token_] = true;
  ++num_tokens_;

  GeneratedPiece piece;
  piece.sample = index_;
  piece.tokens = {last_token_};
  const LogProbabilities logs(logits);
  piece.log_probabilities = {logs.Of(last_token_)};
  if (options_.top_log_probabilities > 0) {
    piece.top = {logs.Top(options_.top_log_probabilities)};
  }
  AddText(piece);
  return piece;
}

void GeneratedSample::AddText(GeneratedPiece& piece) {
  piece.text = matcher_.Add(TextOf(version_, last_token_));
  if (matcher_.stopped()) {
    piece.finish_reason = FinishReason::kStop;
  } else if (num_tokens_ == options_.max_tokens) {
    piece.finish_reason = FinishReason::kLength;
    piece.text += matcher_.Finish();
  }
  finished_ = piece.finish_reason != FinishReason::kGoesOn;
}

}  // namespace recurve
