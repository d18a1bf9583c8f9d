#include "engine/data/utf8.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"

namespace recurve {
namespace {

// The encoding of any number below 2^21 in `length` bytes, valid or not.
std::string Encode(uint32_t code, int length) {
  if (length == 1) return std::string(1, static_cast<char>(code));
  std::string bytes(length, '\0');
  for (int i = length - 1; i > 0; --i, code >>= 6) {
    bytes[i] = static_cast<char>(0x80 | (code & 0x3F));
  }
  bytes[0] = static_cast<char>((0xF00 >> length) | code);
  return bytes;
}

int ShortestLength(uint32_t code) {
  return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

TEST(Utf8, AcceptsExactlyTheShortestFormOfEveryCodePoint) {
  for (uint32_t code = 0; code < 0x120000; ++code) {
    const bool valid = code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    const int shortest = ShortestLength(code);
    ASSERT_EQ(CodePointLength(Encode(code, shortest)), valid ? shortest : 0u)
        << code;
    for (int length = shortest + 1; length <= 4; ++length) {
      ASSERT_EQ(CodePointLength(Encode(code, length)), 0u) << code;
    }
  }
}

TEST(Utf8, RefusesEveryTruncation) {
  for (const std::string& text :
       {Encode(0xE9, 2), Encode(0x20AC, 3), Encode(0x1F600, 4)}) {
    for (size_t length = 1; length < text.size(); ++length) {
      EXPECT_EQ(CodePointLength(text.substr(0, length)), 0u);
      EXPECT_EQ(CodePointLength(text.substr(0, length) + "a"), 0u);
    }
  }
}

TEST(Utf8, FindsTheFirstInvalidByte) {
  EXPECT_EQ(FindInvalidUtf8("na\xC3\xAFve"), absl::string_view::npos);
  EXPECT_EQ(FindInvalidUtf8("na\xC3\xAFv\xC3"), 5u);
  EXPECT_EQ(FindInvalidUtf8("\xFF"), 0u);
}

TEST(Utf8, DescribesCharactersForPeople) {
  EXPECT_EQ(DescribeCharacter("x!"), "'x' (U+0078)");
  EXPECT_EQ(DescribeCharacter("\xF0\x9F\x98\x80"),
            "'\xF0\x9F\x98\x80' (U+1F600)");
  EXPECT_EQ(DescribeCharacter("\n"), "U+000A");
  EXPECT_EQ(DescribeCharacter("\xFEz"), "byte 0xFE");
}

}  // namespace
}  // namespace recurve
