#include "engine/data/data_sizes.h"

#include <algorithm>
#include <limits>
#include <variant>
#include <vector>

namespace recurve {
namespace {

// The largest id + 1, within an int32; 0 if there is none from 0 on.
int64_t Count(const std::vector<int32_t>& ids) {
  const auto largest = std::max_element(ids.begin(), ids.end());
  return largest == ids.end() ? 0 : std::max<int64_t>(0, int64_t{*largest} + 1);
}

int32_t ToSize(int64_t size) {
  return static_cast<int32_t>(
      std::min<int64_t>(size, std::numeric_limits<int32_t>::max()));
}

int64_t VocabularySize(const Dataset& dataset, int64_t text_ids) {
  const auto* data = std::get_if<SequenceDataset>(&dataset);
  if (data == nullptr) return text_ids;
  const int64_t inputs = Count(data->sequences.tokens);
  return data->next_token ? std::max(inputs, Count(data->targets.classes))
                          : inputs;
}

int64_t OutputSize(const Dataset& dataset, const v1::ModelConfig& config) {
  const auto* data = std::get_if<SequenceDataset>(&dataset);
  if (data == nullptr || data->next_token || config.output().linear().tied()) {
    return config.input().token_embedding().vocabulary_size();
  }
  return data->target_size > 0 ? data->target_size
                               : Count(data->targets.classes);
}

int64_t FeatureSize(const Dataset& dataset) {
  const auto* data = std::get_if<SequenceDataset>(&dataset);
  return data == nullptr ? 0 : data->feature_size;
}

bool OpenVocabulary(const v1::ModelConfig& config) {
  return config.input().has_token_embedding() &&
         config.input().token_embedding().vocabulary_size() == 0;
}
bool OpenFeatures(const v1::ModelConfig& config) {
  return config.input().has_features() && config.input().features().size() == 0;
}
bool OpenOutput(const v1::ModelConfig& config) {
  return config.output().has_linear() && config.output().linear().size() == 0;
}

}  // namespace

void FillDataSizes(const Dataset& dataset, int64_t text_ids,
                   v1::ModelConfig* config) {
  if (OpenVocabulary(*config)) {
    config->mutable_input()->mutable_token_embedding()->set_vocabulary_size(
        ToSize(VocabularySize(dataset, text_ids)));
  }
  if (OpenFeatures(*config)) {
    config->mutable_input()->mutable_features()->set_size(
        ToSize(FeatureSize(dataset)));
  }
  if (OpenOutput(*config)) {  // after the vocabulary
    config->mutable_output()->mutable_linear()->set_size(
        ToSize(OutputSize(dataset, *config)));
  }
}

bool LeavesSizesToData(const v1::ModelConfig& config) {
  return OpenVocabulary(config) || OpenFeatures(config) || OpenOutput(config);
}

}  // namespace recurve
