#include "engine/train/call_bounds.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <variant>
#include <vector>

namespace recurve {
namespace {

CallBounds BoundsOfText(const TextDataset& text,
                        const v1::LoaderConfig& config) {
  const int64_t streams = config.batch_size(), unroll = config.unroll();
  const int64_t steps =
      (static_cast<int64_t>(text.tokens.size()) - 1) / streams;
  const int64_t longest = std::min(unroll, steps);
  const int64_t rest = config.drop_last() ? 0 : steps % longest;
  return {streams * longest, streams, longest, rest > 0 ? rest : longest};
}

CallBounds BoundsOfSequences(const SequenceDataset& data,
                             const v1::LoaderConfig& config) {
  const std::vector<int64_t>& offsets = data.sequences.cu_seqlens;
  std::vector<int64_t> lengths(data.sequences.num_sequences());
  for (size_t i = 0; i < lengths.size(); ++i) {
    lengths[i] = offsets[i + 1] - offsets[i];
  }
  const int64_t sequences =
      std::min<int64_t>(config.batch_size(), lengths.size());
  std::partial_sort(lengths.begin(), lengths.begin() + sequences, lengths.end(),
                    std::greater<>());
  return {
      std::accumulate(lengths.begin(), lengths.begin() + sequences, int64_t{0}),
      sequences, lengths.front(),
      *std::min_element(lengths.begin(), lengths.end())};
}

}  // namespace

CallBounds BoundsOfBatches(const Dataset& dataset,
                           const v1::LoaderConfig& config) {
  const auto* text = std::get_if<TextDataset>(&dataset);
  return text != nullptr
             ? BoundsOfText(*text, config)
             : BoundsOfSequences(std::get<SequenceDataset>(dataset), config);
}

}  // namespace recurve
