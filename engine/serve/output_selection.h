// What is read off a row of logits.
#ifndef RECURVE_ENGINE_SERVE_OUTPUT_SELECTION_H_
#define RECURVE_ENGINE_SERVE_OUTPUT_SELECTION_H_

#include <cstdint>

#include "absl/types/span.h"

namespace recurve {

// Natural log of the sum of exponentials, in double. Not finite if any logit
// is NaN or +Inf, or if all are -Inf.
double LogSumExp(absl::Span<const float> logits);

// exp(logit - LogSumExp), computed in double; sizes agree.
void Probabilities(absl::Span<const float> logits, double log_sum_exp,
                   absl::Span<float> probabilities);

// Index of the largest; of equal ones the lowest. REQUIRES: no NaN.
int32_t ArgMax(absl::Span<const float> logits);

// The classes.size() largest, descending; of equal ones the lowest index first.
// REQUIRES: no NaN; at most as many classes as logits.
void TopK(absl::Span<const float> logits, double log_sum_exp,
          absl::Span<int32_t> classes, absl::Span<float> probabilities);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_OUTPUT_SELECTION_H_
