#include "engine/data/utf8.h"

#include <cstdint>

#include "absl/strings/str_format.h"

namespace recurve {
namespace {

uint8_t Byte(absl::string_view text, size_t i) {
  return static_cast<uint8_t>(text[i]);
}

// Length by the first byte alone; 0 for bytes that begin nothing.
size_t LengthByLead(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF5) return 4;
  return 0;
}

// The second byte rules out overlong forms, surrogates and what is too large.
bool SecondByteAllowed(uint8_t lead, uint8_t second) {
  switch (lead) {
    case 0xE0:
      return second >= 0xA0;
    case 0xED:
      return second < 0xA0;
    case 0xF0:
      return second >= 0x90;
    case 0xF4:
      return second < 0x90;
    default:
      return true;
  }
}

uint32_t Decode(absl::string_view text, size_t length) {
  if (length == 1) return Byte(text, 0);
  uint32_t code = Byte(text, 0) & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) code = code << 6 | (Byte(text, i) & 0x3F);
  return code;
}

}  // namespace

size_t CodePointLength(absl::string_view text) {
  if (text.empty()) return 0;
  const size_t length = LengthByLead(Byte(text, 0));
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((Byte(text, i) & 0xC0) != 0x80) return 0;
  }
  if (length > 1 && !SecondByteAllowed(Byte(text, 0), Byte(text, 1))) return 0;
  return length;
}

size_t FindInvalidUtf8(absl::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = CodePointLength(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return absl::string_view::npos;
}

std::string DescribeCharacter(absl::string_view text) {
  const size_t length = CodePointLength(text);
  if (length == 0) {
    return text.empty() ? "nothing"
                        : absl::StrFormat("byte 0x%02X", Byte(text, 0));
  }
  const uint32_t code = Decode(text, length);
  const bool printable = code > 0x20 && (code < 0x7F || code > 0x9F);
  return printable
             ? absl::StrFormat("'%s' (U+%04X)", text.substr(0, length), code)
             : absl::StrFormat("U+%04X", code);
}

}  // namespace recurve
