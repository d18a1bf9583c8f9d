#include "engine/serve/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "engine/base/finite.h"
#include "kernels/random.h"

namespace recurve {
namespace {

template <typename Number>
absl::Status Bad(const char* setting, Number value, const char* allowed) {
  return absl::InvalidArgumentError(absl::StrCat("sampling.", setting, ": is ",
                                                 value, ", must be ", allowed));
}

// By number, largest first; of equal ones the lower index.
template <typename Numbers>
auto Likelier(const Numbers& numbers) {
  return [&numbers](int32_t a, int32_t b) {
    return numbers[a] != numbers[b] ? numbers[a] > numbers[b] : a < b;
  };
}

std::vector<int32_t> AllTokens(size_t count) {
  std::vector<int32_t> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

std::vector<double> Penalized(absl::Span<const float> logits,
                              const std::vector<bool>& seen, double penalty) {
  std::vector<double> scores(logits.begin(), logits.end());
  if (penalty == 1) return scores;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (seen[i]) scores[i] *= scores[i] > 0 ? 1 / penalty : penalty;
  }
  return scores;
}

// The k likeliest, ascending.
void KeepTopK(const std::vector<double>& scores, int64_t k,
              std::vector<int32_t>& tokens) {
  if (k == 0 || k >= static_cast<int64_t>(tokens.size())) return;
  std::nth_element(tokens.begin(), tokens.begin() + (k - 1), tokens.end(),
                   Likelier(scores));
  tokens.resize(k);
  std::sort(tokens.begin(), tokens.end());
}

double Sum(const std::vector<double>& weights,
           const std::vector<int32_t>& tokens) {
  double sum = 0;
  for (const int32_t token : tokens) sum += weights[token];
  return sum;
}

// The fewest likeliest that have the share p of the weight, ascending. A heap,
// since they are few among many as a rule.
void KeepTopP(const std::vector<double>& weights, double p,
              std::vector<int32_t>& tokens) {
  if (p >= 1) return;
  const double wanted = p * Sum(weights, tokens);
  const auto likelier = Likelier(weights);
  const auto less_likely = [&](int32_t a, int32_t b) { return likelier(b, a); };
  std::make_heap(tokens.begin(), tokens.end(), less_likely);
  auto kept = tokens.end();  // what has been taken off the heap lies from here
  double sum = 0;
  do {
    std::pop_heap(tokens.begin(), kept, less_likely);
    --kept;
    sum += weights[*kept];
  } while (sum < wanted && kept != tokens.begin());
  tokens.erase(tokens.begin(), kept);
  std::sort(tokens.begin(), tokens.end());
}

}  // namespace

absl::Status CheckSampling(const SamplingOptions& options) {
  const auto finite = [](double x) { return std::isfinite(x); };
  if (!finite(options.temperature) || options.temperature < 0) {
    return Bad("temperature", options.temperature, "0 or more");
  }
  if (options.top_k < 0) return Bad("top_k", options.top_k, "0 or more");
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    return Bad("top_p", options.top_p, "above 0 and at most 1");
  }
  if (!finite(options.repetition_penalty) || options.repetition_penalty <= 0) {
    return Bad("repetition_penalty", options.repetition_penalty, "above 0");
  }
  return absl::OkStatus();
}

double SamplingUniform(uint64_t seed, int64_t sample, int64_t index) {
  RandomKey key;
  key.seed = seed;
  key.purpose = RandomPurpose::kSample;
  key.step = static_cast<uint64_t>(sample);
  const auto counter = static_cast<uint64_t>(index);
  const RandomBlock block = Philox({static_cast<uint32_t>(counter),
                                    static_cast<uint32_t>(counter >> 32), 0, 0},
                                   StreamKey(key));
  const uint64_t bits = uint64_t{block[0]} << 32 | block[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

int32_t DrawToken(absl::Span<const float> logits, const std::vector<bool>& seen,
                  const SamplingOptions& options, double uniform) {
  std::vector<double> scores =
      Penalized(logits, seen, options.repetition_penalty);
  const auto largest = std::max_element(scores.begin(), scores.end());
  if (options.temperature == 0) {
    return static_cast<int32_t>(largest - scores.begin());
  }
  std::vector<int32_t> tokens = AllTokens(scores.size());
  KeepTopK(scores, options.top_k, tokens);
  const double top = *largest;
  for (const int32_t token : tokens) {
    scores[token] = std::exp((scores[token] - top) / options.temperature);
  }
  KeepTopP(scores, options.top_p, tokens);
  const double point = uniform * Sum(scores, tokens);
  double sum = 0;
  for (const int32_t token : tokens) {
    sum += scores[token];
    if (sum > point) return token;
  }
  return tokens.back();
}

LogProbabilities::LogProbabilities(absl::Span<const float> logits)
    : logits_(logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  log_sum_ = largest + std::log(sum);
}

std::vector<TokenLogProbability> LogProbabilities::Top(int64_t count) const {
  std::vector<int32_t> tokens = AllTokens(logits_.size());
  const auto end = tokens.begin() + std::min<int64_t>(count, tokens.size());
  std::partial_sort(tokens.begin(), end, tokens.end(), Likelier(logits_));
  std::vector<TokenLogProbability> top;
  for (auto token = tokens.begin(); token != end; ++token) {
    top.push_back({*token, Of(*token)});
  }
  return top;
}

absl::Status CheckFinite(absl::Span<const float> logits) {
  const auto bad = FirstNotFinite(logits);
  if (!bad.has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the logits are not finite (that of token ", *bad, " is ", logits[*bad],
      "): no token can be drawn from what this model makes"));
}

}  // namespace recurve
