#include "client/cli/vocabulary.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace recurve::cli {
namespace {

constexpr int kByteTokens = 256;

bool IsContinuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

std::vector<std::string> AllBytes() {
  std::vector<std::string> bytes;
  for (int value = 0; value < kByteTokens; ++value) {
    bytes.emplace_back(1, static_cast<char>(value));
  }
  return bytes;
}

}  // namespace

bool IsLanguageModel(const v1::ModelConfig& config) {
  return config.input().has_token_embedding() &&
         config.output().pooling() == v1::Output::POOLING_NONE &&
         config.output().linear().size() ==
             config.input().token_embedding().vocabulary_size();
}

bool ClassesHaveText(const v1::ModelVersion& version) {
  return IsLanguageModel(version.config()) &&
         (!version.vocabulary().empty() ||
          version.config().output().linear().size() == kByteTokens);
}

bool IsOneCharacter(absl::string_view word) {
  return !word.empty() && !IsContinuation(word[0]) &&
         std::all_of(word.begin() + 1, word.end(), IsContinuation);
}

Vocabulary::Vocabulary(const v1::ModelVersion& version)
    : words_(version.vocabulary().begin(), version.vocabulary().end()) {
  if (words_.empty()) words_ = AllBytes();
  for (size_t id = 0; id < words_.size(); ++id) {
    ids_.emplace(words_[id], static_cast<int32_t>(id));
    longest_ = std::max(longest_, words_[id].size());
  }
}

absl::StatusOr<std::vector<int32_t>> Vocabulary::Encode(
    absl::string_view text) const {
  std::vector<int32_t> tokens;
  for (size_t at = 0; at < text.size();) {
    size_t length = std::min(longest_, text.size() - at);
    auto found = ids_.end();
    for (; length > 0 && found == ids_.end(); --length) {
      found = ids_.find(text.substr(at, length));
    }
    if (found == ids_.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "no token of the model's vocabulary begins \"",
          absl::Utf8SafeCEscape(text.substr(at, 8)), "\", at byte ", at));
    }
    tokens.push_back(found->second);
    at += found->first.size();
  }
  return tokens;
}

std::string Vocabulary::Decode(int32_t token) const {
  if (token < 0 || static_cast<size_t>(token) >= words_.size()) {
    return absl::StrCat("<", token, ">");
  }
  return words_[token];
}

}  // namespace recurve::cli
