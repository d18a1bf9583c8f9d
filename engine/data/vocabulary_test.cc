#include "engine/data/vocabulary.h"

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Text = v1::DataFormat::Text;

Vocabulary Make(std::vector<std::string> tokens) {
  return *Vocabulary::Create(std::move(tokens));
}

void ExpectInvalid(const absl::Status& status, const std::string& message) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(message));
}

TEST(Vocabulary, OfCharactersIsSortedByCodePoint) {
  const auto vocabulary = Vocabulary::OfCharacters(
      "b\xF0\x9F\x98\x80\xC3\xA9"
      "a\nb\xE2\x82\xAC");
  ASSERT_TRUE(vocabulary.ok());
  EXPECT_THAT(vocabulary->tokens(),
              ElementsAre("\n", "a", "b", "\xC3\xA9", "\xE2\x82\xAC",
                          "\xF0\x9F\x98\x80"));
}

TEST(Vocabulary, OfCharactersNamesTheInvalidByte) {
  ExpectInvalid(Vocabulary::OfCharacters("ab\xFF").status(),
                "not UTF-8: byte 0xFF at byte 2");
}

TEST(Vocabulary, JsonRoundTrip) {
  const Vocabulary vocabulary = Make({"b", "\n", "\"", "\xC3\xA9", ""});
  const auto again = Vocabulary::FromJson(vocabulary.ToJson());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->tokens(), vocabulary.tokens());
}

TEST(Vocabulary, RefusesWhatIsNotAListOfDistinctStrings) {
  ExpectInvalid(Vocabulary::FromJson("{\"a\": 1}").status(),
                "not a JSON array");
  ExpectInvalid(Vocabulary::FromJson("[\"a\"").status(), "not a JSON array");
  ExpectInvalid(Vocabulary::FromJson("[\"a\", 1]").status(),
                "entry 1 is not a string");
  ExpectInvalid(Vocabulary::FromJson("[\"a\", \"b\", \"a\"]").status(),
                "tokens 0 and 2 are both \"a\"");
  ExpectInvalid(Vocabulary::Create({"a", "\x80"}).status(),
                "token 1 is not UTF-8");
  ExpectInvalid(Vocabulary::Create({std::string(2000, 'x')}).status(),
                "has 2000 bytes");
}

TEST(Vocabulary, FindsWholeTokensOnly) {
  const Vocabulary vocabulary = Make({"the", "t", ""});
  EXPECT_EQ(vocabulary.Find("the"), 0);
  EXPECT_EQ(vocabulary.Find("t"), 1);
  EXPECT_EQ(vocabulary.Find("th"), -1);
  EXPECT_EQ(vocabulary.Find(""), -1);
}

// Every length tried, longest first.
int32_t SlowLongestMatch(const std::vector<std::string>& tokens,
                         const std::string& text) {
  for (size_t length = text.size(); length > 0; --length) {
    for (size_t id = 0; id < tokens.size(); ++id) {
      if (tokens[id] == text.substr(0, length)) return static_cast<int32_t>(id);
    }
  }
  return -1;
}

TEST(Vocabulary, LongestMatchAgreesWithTryingAll) {
  std::mt19937 random(1);
  const auto word = [&](int max_length) {
    std::string text(1 + random() % max_length, ' ');
    for (char& c : text) c = static_cast<char>('a' + random() % 3);
    return text;
  };
  int found = 0;
  for (int trial = 0; trial < 300; ++trial) {
    std::set<std::string> distinct;
    for (int i = 0; i < 12; ++i) distinct.insert(word(5));
    std::vector<std::string> tokens(distinct.begin(), distinct.end());
    std::shuffle(tokens.begin(), tokens.end(), random);
    const Vocabulary vocabulary = Make(tokens);
    for (int i = 0; i < 20; ++i) {
      const std::string text = word(8);
      const int32_t expected = SlowLongestMatch(tokens, text);
      ASSERT_EQ(vocabulary.LongestMatch(text), expected) << text;
      found += expected >= 0;
    }
  }
  EXPECT_GT(found, 1000);
}

TEST(Tokenize, Characters) {
  const Vocabulary vocabulary = Make({"a", "\xC3\xA9", "ab"});
  for (auto kind : {Text::CHARACTERS, Text::TOKENIZATION_UNSPECIFIED}) {
    const auto ids = Tokenize(
        "a\xC3\xA9"
        "a",
        kind, &vocabulary);
    ASSERT_TRUE(ids.ok());
    EXPECT_THAT(*ids, ElementsAre(0, 1, 0));
  }
  ExpectInvalid(Tokenize("aab", Text::CHARACTERS, &vocabulary).status(),
                "'b' (U+0062) at byte 2");
  ExpectInvalid(Tokenize("a\xC3", Text::CHARACTERS, &vocabulary).status(),
                "not UTF-8: byte 0xC3 at byte 1");
  ExpectInvalid(Tokenize("a", Text::CHARACTERS, nullptr).status(),
                "no vocabulary");
}

TEST(Tokenize, Bytes) {
  const auto ids =
      Tokenize(absl::string_view("\0\xFFz", 3), Text::BYTES, nullptr);
  ASSERT_TRUE(ids.ok());
  EXPECT_THAT(*ids, ElementsAre(0, 255, 122));
}

TEST(Tokenize, LongestMatchOfTheVocabulary) {
  const Vocabulary vocabulary = Make({"t", "th", "the", "e", "hen"});
  const auto ids = Tokenize("thethent", Text::VOCABULARY, &vocabulary);
  ExpectInvalid(ids.status(), "'n' (U+006E) at byte 6");
  const auto good = Tokenize("thethe", Text::VOCABULARY, &vocabulary);
  ASSERT_TRUE(good.ok());
  EXPECT_THAT(*good, ElementsAre(2, 2));
}

}  // namespace
}  // namespace recurve
