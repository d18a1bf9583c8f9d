// Finds the first of some strings in a text that comes in pieces.
#ifndef RECURVE_ENGINE_SERVE_STOP_MATCHER_H_
#define RECURVE_ENGINE_SERVE_STOP_MATCHER_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace recurve {

// What comes out, all pieces together, is the text up to where the stop string
// begins that is complete first (the longest of those), however the text is
// cut into pieces. Text in which one may have begun is held back until that is
// decided, and so are the first bytes of a character that is not whole yet.
class StopMatcher {
 public:
  // None of them empty.
  explicit StopMatcher(std::vector<std::string> stops);

  // More text; returns what is certain now. REQUIRES: !stopped().
  std::string Add(absl::string_view piece);
  // Whether a stop string has come.
  bool stopped() const { return stopped_; }
  // No more text comes: what was held back.
  std::string Finish();

 private:
  // Of held_, bytes that a stop string may begin with, or half a character.
  size_t Undecided() const;

  const std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_STOP_MATCHER_H_
