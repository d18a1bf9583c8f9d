#include "engine/serve/output_selection.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace recurve {
namespace {

float Probability(float logit, double log_sum_exp) {
  return static_cast<float>(std::exp(static_cast<double>(logit) - log_sum_exp));
}

}  // namespace

double LogSumExp(absl::Span<const float> logits) {
  double largest = -std::numeric_limits<double>::infinity();
  for (float logit : logits) {
    if (std::isnan(logit)) return std::numeric_limits<double>::quiet_NaN();
    largest = std::max(largest, static_cast<double>(logit));
  }
  if (std::isinf(largest)) return largest;
  double sum = 0;
  for (float logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

void Probabilities(absl::Span<const float> logits, double log_sum_exp,
                   absl::Span<float> probabilities) {
  for (size_t i = 0; i < logits.size(); ++i) {
    probabilities[i] = Probability(logits[i], log_sum_exp);
  }
}

int32_t ArgMax(absl::Span<const float> logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) -
                              logits.begin());
}

void TopK(absl::Span<const float> logits, double log_sum_exp,
          absl::Span<int32_t> classes, absl::Span<float> probabilities) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + classes.size(), order.end(),
                    [&](int32_t a, int32_t b) {
                      return logits[a] != logits[b] ? logits[a] > logits[b]
                                                    : a < b;
                    });
  for (size_t i = 0; i < classes.size(); ++i) {
    classes[i] = order[i];
    probabilities[i] = Probability(logits[order[i]], log_sum_exp);
  }
}

}  // namespace recurve
