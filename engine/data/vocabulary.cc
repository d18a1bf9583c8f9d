#include "engine/data/vocabulary.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/data/utf8.h"
#include "kernels/status.h"
#include "nlohmann/json.hpp"

namespace recurve {
namespace {

absl::Status CheckToken(absl::string_view token, int64_t id) {
  if (static_cast<int64_t>(token.size()) > Vocabulary::kMaxTokenBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("vocabulary: token ", id, " has ", token.size(),
                     " bytes; at most ", Vocabulary::kMaxTokenBytes));
  }
  if (const size_t invalid = FindInvalidUtf8(token);
      invalid != absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat(
        "vocabulary: token ", id, " is not UTF-8 at its byte ", invalid));
  }
  return absl::OkStatus();
}

absl::Status NotUtf8(absl::string_view text, size_t offset) {
  return absl::InvalidArgumentError(absl::StrCat(
      "text is not UTF-8: ", DescribeCharacter(text.substr(offset)),
      " at byte ", offset));
}

// Why no token could be found at `offset`.
absl::Status NoToken(absl::string_view text, size_t offset) {
  if (CodePointLength(text.substr(offset)) == 0) return NotUtf8(text, offset);
  return absl::InvalidArgumentError(absl::StrCat(
      "character ", DescribeCharacter(text.substr(offset)), " at byte ", offset,
      " of the text is not in the model's vocabulary"));
}

std::vector<int32_t> ByteValues(absl::string_view text) {
  std::vector<int32_t> ids;
  ids.reserve(text.size());
  for (char c : text) ids.push_back(static_cast<uint8_t>(c));
  return ids;
}

// `match` gives the id of the token at the start of its argument, -1 for none.
template <typename Match>
absl::StatusOr<std::vector<int32_t>> TokenizeBy(absl::string_view text,
                                                const Vocabulary& vocabulary,
                                                Match match) {
  std::vector<int32_t> ids;
  for (size_t offset = 0; offset < text.size();) {
    const int32_t id = match(text.substr(offset));
    if (id < 0) return NoToken(text, offset);
    ids.push_back(id);
    offset += vocabulary.tokens()[id].size();
  }
  return ids;
}

}  // namespace

absl::StatusOr<Vocabulary> Vocabulary::Create(std::vector<std::string> tokens) {
  if (static_cast<int64_t>(tokens.size()) > kMaxTokens) {
    return absl::InvalidArgumentError(absl::StrCat(
        "vocabulary: ", tokens.size(), " tokens; at most ", kMaxTokens));
  }
  for (size_t id = 0; id < tokens.size(); ++id) {
    RETURN_IF_ERROR(CheckToken(tokens[id], static_cast<int64_t>(id)));
  }
  Vocabulary vocabulary;
  vocabulary.tokens_ = std::move(tokens);
  RETURN_IF_ERROR(vocabulary.Sort());
  return vocabulary;
}

absl::Status Vocabulary::Sort() {
  sorted_.resize(tokens_.size());
  std::iota(sorted_.begin(), sorted_.end(), 0);
  std::sort(sorted_.begin(), sorted_.end(), [this](int32_t a, int32_t b) {
    const int order = tokens_[a].compare(tokens_[b]);
    return order != 0 ? order < 0 : a < b;
  });
  for (size_t i = 1; i < sorted_.size(); ++i) {
    if (tokens_[sorted_[i - 1]] == tokens_[sorted_[i]]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "vocabulary: tokens ", sorted_[i - 1], " and ", sorted_[i],
          " are both \"", absl::CHexEscape(tokens_[sorted_[i]]), "\""));
    }
  }
  if (!sorted_.empty() && tokens_[sorted_[0]].empty()) {
    sorted_.erase(sorted_.begin());
  }
  return absl::OkStatus();
}

absl::StatusOr<Vocabulary> Vocabulary::FromJson(absl::string_view json) {
  const auto array = nlohmann::json::parse(json.begin(), json.end(), nullptr,
                                           /*allow_exceptions=*/false);
  if (!array.is_array()) {
    return absl::InvalidArgumentError(
        "vocabulary: not a JSON array of strings");
  }
  std::vector<std::string> tokens;
  for (const auto& token : array) {
    if (!token.is_string()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "vocabulary: entry ", tokens.size(), " is not a string"));
    }
    tokens.push_back(token.get<std::string>());
  }
  return Create(std::move(tokens));
}

absl::StatusOr<Vocabulary> Vocabulary::OfCharacters(absl::string_view text) {
  absl::btree_set<absl::string_view> characters;
  for (size_t offset = 0; offset < text.size();) {
    const size_t length = CodePointLength(text.substr(offset));
    if (length == 0) return NotUtf8(text, offset);
    characters.insert(text.substr(offset, length));
    offset += length;
  }
  // The order of UTF-8 bytes is that of code points.
  std::vector<std::string> tokens;
  for (absl::string_view character : characters) tokens.emplace_back(character);
  return Create(std::move(tokens));
}

int32_t Vocabulary::Find(absl::string_view token) const {
  const auto at = std::lower_bound(
      sorted_.begin(), sorted_.end(), token,
      [this](int32_t id, absl::string_view t) { return tokens_[id] < t; });
  return at != sorted_.end() && tokens_[*at] == token ? *at : -1;
}

// Narrows the range of tokens that begin like the text, byte by byte. The
// shortest of a range, which is the whole prefix if that is a token, is first.
int32_t Vocabulary::LongestMatch(absl::string_view text) const {
  int32_t longest = -1;
  auto begin = sorted_.begin(), end = sorted_.end();
  for (size_t i = 0; i < text.size() && begin != end; ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    const auto at = [this, i](int32_t id) {
      return static_cast<uint8_t>(tokens_[id][i]);
    };
    begin = std::partition_point(begin, end,
                                 [&](int32_t id) { return at(id) < byte; });
    end = std::partition_point(begin, end,
                               [&](int32_t id) { return at(id) == byte; });
    if (begin != end && tokens_[*begin].size() == i + 1) longest = *begin++;
  }
  return longest;
}

std::string Vocabulary::ToJson() const {
  return nlohmann::json(tokens_).dump();
}

absl::StatusOr<std::vector<int32_t>> Tokenize(
    absl::string_view text, v1::DataFormat::Text::Tokenization tokenization,
    const Vocabulary* vocabulary) {
  using Text = v1::DataFormat::Text;
  if (tokenization == Text::BYTES) return ByteValues(text);
  if (vocabulary == nullptr || vocabulary->size() == 0) {
    return absl::InvalidArgumentError(
        "the model has no vocabulary; only tokenization BYTES needs none");
  }
  switch (tokenization) {
    case Text::TOKENIZATION_UNSPECIFIED:
    case Text::CHARACTERS:
      return TokenizeBy(text, *vocabulary, [&](absl::string_view rest) {
        return vocabulary->Find(rest.substr(0, CodePointLength(rest)));
      });
    case Text::VOCABULARY:
      return TokenizeBy(text, *vocabulary, [&](absl::string_view rest) {
        return vocabulary->LongestMatch(rest);
      });
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("unknown tokenization ", tokenization));
  }
}

}  // namespace recurve
