#include "server/kserve/model_info.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/kserve/datatype.h"
#include "server/kserve/model_tensors.h"

namespace recurve::server::kserve {
namespace {

constexpr char kPlatform[] = "recurve";

void Describe(const ModelTensor& tensor,
              inference::ModelMetadataResponse::TensorMetadata& metadata) {
  metadata.set_name(tensor.name);
  metadata.set_datatype(std::string(DatatypeName(tensor.dtype)));
  metadata.add_shape(-1);  // sequences
  metadata.mutable_shape()->Add(tensor.shape.begin(), tensor.shape.end());
}

template <typename ConfigTensor>  // ModelInput, ModelOutput
void Describe(const ModelTensor& tensor, ConfigTensor& config) {
  config.set_name(tensor.name);
  config.set_data_type(ConfigType(tensor.dtype));
  config.mutable_dims()->Add(tensor.shape.begin(), tensor.shape.end());
}

std::string OutputsByNameAlone(const Model& model) {
  std::vector<std::string> names;
  for (const ModelOutput& output : OutputsOf(model, /*top_k=*/0)) {
    if (!output.by_default) names.push_back(output.tensor.name);
  }
  return absl::StrJoin(names, ",");
}

void SetScheduling(const ServingLimits& limits, bool sequences,
                   inference::ModelConfig& config) {
  const uint64_t delay = absl::ToInt64Microseconds(limits.batch_timeout);
  if (sequences) {
    auto& batching = *config.mutable_sequence_batching();
    batching.set_max_sequence_idle_microseconds(
        absl::ToInt64Microseconds(limits.sequence_idle_timeout));
    batching.mutable_oldest()->set_max_candidate_sequences(
        limits.max_sequences);
    batching.mutable_oldest()->set_max_queue_delay_microseconds(delay);
  } else {
    auto& batching = *config.mutable_dynamic_batching();
    batching.set_max_queue_delay_microseconds(delay);
    batching.set_priority_levels(limits.priority_levels);
    batching.set_default_priority_level(limits.default_priority);
  }
}

}  // namespace

inference::ModelMetadataResponse MetadataOf(
    const ModelVersion& version, absl::Span<const ModelHandle> versions) {
  inference::ModelMetadataResponse metadata;
  metadata.set_name(version.model_id);
  for (const ModelHandle& other : versions) {
    metadata.add_versions(absl::StrCat(other->number));
  }
  metadata.set_platform(kPlatform);
  for (const ModelTensor& input : InputsOf(*version.model)) {
    Describe(input, *metadata.add_inputs());
  }
  for (const ModelOutput& output : OutputsOf(*version.model, /*top_k=*/0)) {
    if (output.by_default) Describe(output.tensor, *metadata.add_outputs());
  }
  return metadata;
}

inference::ModelConfig ConfigOf(const ModelVersion& version,
                                const ServingLimits& limits, bool plain) {
  const Model& model = *version.model;
  inference::ModelConfig config;
  config.set_name(version.model_id);
  config.set_platform(kPlatform);
  config.set_backend(kPlatform);
  config.mutable_version_policy()->mutable_all();
  config.set_max_batch_size(limits.max_batch_size);
  for (const ModelTensor& input : InputsOf(model)) {
    Describe(input, *config.add_input());
    config.mutable_input()->rbegin()->set_optional(input.optional);
  }
  for (const ModelOutput& output : OutputsOf(model, /*top_k=*/0)) {
    if (output.by_default) Describe(output.tensor, *config.add_output());
  }
  SetScheduling(limits, !model.bidirectional() && !plain, config);
  (*config.mutable_parameters())["outputs_by_name"].set_string_value(
      OutputsByNameAlone(model));
  return config;
}

}  // namespace recurve::server::kserve
