// The text that a language model's tokens stand for.
#ifndef RECURVE_ENGINE_SERVE_TOKEN_TEXT_H_
#define RECURVE_ENGINE_SERVE_TOKEN_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/model/model.h"
#include "engine/serve/model_version.h"

namespace recurve {

// FailedPrecondition unless the model takes tokens and gives one logit for each
// of them at every step, by what came before alone.
absl::Status CheckLanguageModel(const ModelVersion& version);

// By the version's vocabulary; without one, of 256 tokens each is a byte, and
// others have no text.
bool HasText(const ModelVersion& version);
// REQUIRES: HasText. InvalidArgument names what has no token, and where.
absl::StatusOr<std::vector<int32_t>> TokensOf(const ModelVersion& version,
                                              absl::string_view text);
// Empty if there is none.
std::string TextOf(const ModelVersion& version, int32_t token);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_TOKEN_TEXT_H_
