// How a token is drawn from logits. Pure functions, in float64 throughout: the
// same logits and settings draw the same token on every machine, whatever is
// drawn beside it.
//
// V logits, of which each is finite. "Likelier" is the larger number, and among
// equal ones the lower token.
#ifndef RECURVE_ENGINE_SERVE_SAMPLING_H_
#define RECURVE_ENGINE_SERVE_SAMPLING_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace recurve {

struct SamplingOptions {
  double temperature = 1;         // 0: the likeliest token
  int64_t top_k = 0;              // 0: all
  double top_p = 1;               // 1: all
  double repetition_penalty = 1;  // 1: none
  uint64_t seed = 0;
};

// InvalidArgument names the setting, its value and what it may be.
absl::Status CheckSampling(const SamplingOptions& options);

// Uniform in [0, 1), with 53 bits, for token `index` of sample `sample`.
double SamplingUniform(uint64_t seed, int64_t sample, int64_t index);

// The token at `uniform`, in [0, 1), of the distribution that is left after:
//   repetition penalty  logits of seen tokens, positive ones / penalty, others
//   * temperature         logits / temperature; at 0 the likeliest is the
//   answer top-k               the k likeliest stay top-p               the
//   fewest likeliest stay that have the share top_p of
//                       the probability of those that stayed
// where tokens lie in ascending order. `seen` [V].
int32_t DrawToken(absl::Span<const float> logits, const std::vector<bool>& seen,
                  const SamplingOptions& options, double uniform);

struct TokenLogProbability {
  int32_t token = 0;
  float log_probability = 0;
};

// log softmax of the logits as they are.
class LogProbabilities {
 public:
  // `logits` must remain while the object is used.
  explicit LogProbabilities(absl::Span<const float> logits);

  float Of(int32_t token) const {
    return static_cast<float>(logits_[token] - log_sum_);
  }
  // Likeliest first.
  std::vector<TokenLogProbability> Top(int64_t count) const;

 private:
  const absl::Span<const float> logits_;
  double log_sum_ = 0;
};

// FailedPrecondition, with the first logit that is not finite: nothing can be
// drawn.
absl::Status CheckFinite(absl::Span<const float> logits);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_SAMPLING_H_
