// A ModelConfig as people write it: reading the textproto, and checking every
// field by itself. What follows from several fields together is checked where
// sizes are derived (Model::Create).
#ifndef RECURVE_ENGINE_MODEL_CONFIG_H_
#define RECURVE_ENGINE_MODEL_CONFIG_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/recurve/v1/model_config.pb.h"

namespace recurve {

// Limits. Together they keep every derived size far from overflow.
inline constexpr int64_t kMaxConfigBytes = 1 << 20;  // of a textproto
inline constexpr int64_t kMaxSize = 1 << 16;  // features, embedding, hidden
inline constexpr int64_t kMaxVocabulary = 1 << 22;  // and output.linear.size
inline constexpr int64_t kMaxLayers = 256;          // of all blocks
inline constexpr int64_t kMaxNameLength = 128;
inline constexpr int64_t kMaxParameters = int64_t{1} << 31;
inline constexpr float kMaxHighwayBias = 50;  // either sign
inline constexpr float kMaxWeightCInit = 1000;

// InvalidArgument with line and column for bad syntax and unknown fields.
absl::StatusOr<v1::ModelConfig> ParseModelConfig(absl::string_view textproto);

// InvalidArgument names the field's path, its value and what is allowed, as in
// `blocks[0].sru.hidden_size: 0 is not in [1, 65536]`, or the number of a field
// that came over the wire and is unknown.
absl::Status CheckFields(const v1::ModelConfig& config);

// The key prefix of a block: its name, or `rnn`.
std::string BlockName(const v1::Block& block);

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_CONFIG_H_
