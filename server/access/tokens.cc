#include "server/access/tokens.h"

#include <openssl/crypto.h>

#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/sha256.h"
#include "kernels/status.h"

namespace recurve::server {
namespace {

// Long enough that nobody guesses one, if it is random.
constexpr size_t kMinTokenLength = 16;

}  // namespace

absl::StatusOr<Tokens> Tokens::Parse(absl::string_view text) {
  Tokens tokens;
  std::set<std::string> names, digests;
  int number = 0;
  const auto error = [&](const auto&... what) {
    return absl::InvalidArgumentError(
        absl::StrCat("line ", number, ": ", what...));
  };
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
    if (words.size() != 3) {
      return error("has ", words.size(), " words, must be NAME TOKEN SCOPES");
    }
    if (words[1].size() < kMinTokenLength) {
      return error("the token has ", words[1].size(), " characters, must have ",
                   kMinTokenLength, " or more");
    }
    const auto scopes = Scopes::Parse(words[2]);
    if (!scopes.ok()) return error(scopes.status().message());
    std::string digest = Sha256Hex(words[1]);
    if (!names.insert(words[0]).second) {
      return error("the name ", words[0], " is there already");
    }
    if (!digests.insert(digest).second) {
      return error("the token is another line's");
    }
    tokens.entries_.push_back({std::move(digest), {words[0], *scopes}});
  }
  if (tokens.entries_.empty()) {
    return absl::InvalidArgumentError("there is no token in it");
  }
  return tokens;
}

const Token* Tokens::Find(absl::string_view presented) const {
  const std::string digest = Sha256Hex(presented);
  const Token* found = nullptr;
  for (const Entry& entry : entries_) {
    if (CRYPTO_memcmp(digest.data(), entry.digest.data(), digest.size()) == 0) {
      found = &entry.token;
    }
  }
  return found;
}

}  // namespace recurve::server
