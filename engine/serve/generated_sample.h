// One of the samples of a generation: what is drawn for it from logits, as
// tokens and as text, until it ends.
#ifndef RECURVE_ENGINE_SERVE_GENERATED_SAMPLE_H_
#define RECURVE_ENGINE_SERVE_GENERATED_SAMPLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/serve/model_version.h"
#include "engine/serve/sampling.h"
#include "engine/serve/stop_matcher.h"

namespace recurve {

enum class FinishReason {
  kGoesOn,
  kStop,    // a stop string has come
  kLength,  // max_tokens are drawn
};

// What is said of a sample at once.
struct GeneratedPiece {
  int64_t sample = 0;
  // Whole characters where the tokens' text is UTF-8. Behind the tokens while a
  // stop string may begin.
  std::string text;
  std::vector<int32_t> tokens;
  // Of `tokens`, by the model alone; absent for those of the prompt.
  std::vector<float> log_probabilities;
  std::vector<std::vector<TokenLogProbability>> top;  // if wanted
  FinishReason finish_reason = FinishReason::kGoesOn;
  int64_t position = 0;  // of a session, when it has finished
};

struct SampleOptions {
  SamplingOptions sampling;
  int64_t max_tokens = 1;
  std::vector<std::string> stops;
  int64_t top_log_probabilities = 0;
};

class GeneratedSample {
 public:
  // `version` is a language model, which outlives the sample.
  GeneratedSample(const ModelVersion& version, int64_t index,
                  absl::Span<const int32_t> prompt, SampleOptions options);

  // Draws the next token from logits [V]. FailedPrecondition if one is not
  // finite.
  // REQUIRES: !finished().
  absl::StatusOr<GeneratedPiece> Next(absl::Span<const float> logits);

  bool finished() const { return finished_; }
  int64_t num_tokens() const { return num_tokens_; }
  int32_t last_token() const { return last_token_; }

 private:
  void AddText(GeneratedPiece& piece);

  const ModelVersion& version_;
  const int64_t index_;
  const SampleOptions options_;
  std::vector<bool> seen_;  // [V]
  StopMatcher matcher_;
  int64_t num_tokens_ = 0;
  int32_t last_token_ = 0;
  bool finished_ = false;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_GENERATED_SAMPLE_H_
