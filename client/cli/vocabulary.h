// Text to token ids and back, by a model's vocabulary.
#ifndef RECURVE_CLIENT_CLI_VOCABULARY_H_
#define RECURVE_CLIENT_CLI_VOCABULARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/recurve/v1/model.pb.h"

namespace recurve::cli {

// Whether `word` is one UTF-8 code point.
bool IsOneCharacter(absl::string_view word);

// Whether the model takes tokens and gives one logit for each of them at every
// step.
bool IsLanguageModel(const v1::ModelConfig& config);

// Whether the model's classes are its tokens and these have a text.
bool ClassesHaveText(const v1::ModelVersion& version);

// Without a vocabulary a token is a byte.
class Vocabulary {
 public:
  explicit Vocabulary(const v1::ModelVersion& version);

  // The longest match at each place. InvalidArgument names what has no token
  // and where.
  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text) const;
  // What a token stands for; its number in angle brackets if that is unknown.
  std::string Decode(int32_t token) const;

 private:
  std::vector<std::string> words_;
  absl::flat_hash_map<std::string, int32_t> ids_;
  size_t longest_ = 1;
};

}  // namespace recurve::cli

#endif  // RECURVE_CLIENT_CLI_VOCABULARY_H_
