// Bearer tokens and what each is good for.
#ifndef RECURVE_SERVER_ACCESS_TOKENS_H_
#define RECURVE_SERVER_ACCESS_TOKENS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/access/scopes.h"

namespace recurve::server {

struct Token {
  std::string name;
  Scopes scopes;
};

// Immutable.
class Tokens {
 public:
  // A line each: NAME TOKEN SCOPES, between blanks. Empty lines and lines that
  // begin with # are skipped. InvalidArgument says which line is wrong, and
  // never what the token is.
  static absl::StatusOr<Tokens> Parse(absl::string_view text);

  // Null if there is no such token. How long that takes depends on how many
  // there are and on the length of `presented` alone.
  const Token* Find(absl::string_view presented) const;

 private:
  struct Entry {
    std::string digest;  // hexadecimal SHA-256: comparing takes the same time
                         // for every token, and memory holds no secrets
    Token token;
  };

  std::vector<Entry> entries_;
};

}  // namespace recurve::server

#endif  // RECURVE_SERVER_ACCESS_TOKENS_H_
