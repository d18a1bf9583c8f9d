#include "engine/serve/stop_matcher.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace recurve {
namespace {

// The longest end of `text` that `stop`, as yet without its last byte, begins
// with.
size_t BegunAtEnd(absl::string_view text, absl::string_view stop) {
  size_t length = std::min(text.size(), stop.size() - 1);
  while (text.substr(text.size() - length) != stop.substr(0, length)) --length;
  return length;
}

// Bytes of a UTF-8 character at the end of `text` of which more must come; 0
// where it is whole, or no UTF-8.
size_t HalfCharacter(absl::string_view text) {
  size_t bytes = 0;
  while (bytes < std::min<size_t>(text.size(), 3)) {
    const auto byte = static_cast<uint8_t>(text[text.size() - ++bytes]);
    if ((byte & 0xC0) == 0x80) continue;  // not the first
    const size_t whole = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return byte >= 0xC0 && bytes < whole ? bytes : 0;
  }
  return 0;
}

}  // namespace

StopMatcher::StopMatcher(std::vector<std::string> stops)
    : stops_(std::move(stops)) {}

std::string StopMatcher::Add(absl::string_view piece) {
  held_.append(piece.data(), piece.size());
  size_t end = std::string::npos, begin = 0;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    if (std::make_pair(at + stop.size(), at) < std::make_pair(end, begin)) {
      end = at + stop.size();
      begin = at;
    }
  }
  stopped_ = end != std::string::npos;
  const size_t certain = stopped_ ? begin : held_.size() - Undecided();
  std::string text = held_.substr(0, certain);
  held_.erase(0, stopped_ ? held_.size() : certain);
  return text;
}

std::string StopMatcher::Finish() { return std::exchange(held_, {}); }

size_t StopMatcher::Undecided() const {
  size_t length = HalfCharacter(held_);
  for (const std::string& stop : stops_) {
    length = std::max(length, BegunAtEnd(held_, stop));
  }
  return length;
}

}  // namespace recurve
