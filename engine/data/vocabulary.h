// Token ids and the text they stand for, and the three ways from text to ids.
#ifndef RECURVE_ENGINE_DATA_VOCABULARY_H_
#define RECURVE_ENGINE_DATA_VOCABULARY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve {

// Immutable; safe to share between threads. The file format is a JSON array of
// strings, index = token id.
class Vocabulary {
 public:
  static constexpr int64_t kMaxTokens = 1 << 22;
  static constexpr int64_t kMaxTokenBytes = 1024;

  // InvalidArgument names the token that is too long, not UTF-8 or there twice.
  // The empty string is allowed: an id that no text leads to.
  static absl::StatusOr<Vocabulary> Create(std::vector<std::string> tokens);
  static absl::StatusOr<Vocabulary> FromJson(absl::string_view json);
  // The distinct code points of `text`, ascending.
  static absl::StatusOr<Vocabulary> OfCharacters(absl::string_view text);

  const std::vector<std::string>& tokens() const { return tokens_; }
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  // -1 if there is none.
  int32_t Find(absl::string_view token) const;
  // The longest token that `text` begins with; -1 if none does.
  int32_t LongestMatch(absl::string_view text) const;

  std::string ToJson() const;

 private:
  Vocabulary() = default;
  absl::Status Sort();

  std::vector<std::string> tokens_;
  std::vector<int32_t> sorted_;  // ids by their tokens' bytes, "" left out
};

// CHARACTERS: each code point must be in the vocabulary. VOCABULARY: at each
// place the longest token of the vocabulary that matches. BYTES: ids are byte
// values and `vocabulary` may be null. InvalidArgument names the unknown
// character, or says that the text is not UTF-8, with the byte offset.
absl::StatusOr<std::vector<int32_t>> Tokenize(
    absl::string_view text, v1::DataFormat::Text::Tokenization tokenization,
    const Vocabulary* vocabulary);

}  // namespace recurve

#endif  // RECURVE_ENGINE_DATA_VOCABULARY_H_
