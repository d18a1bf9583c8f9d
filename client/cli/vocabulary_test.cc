#include "client/cli/vocabulary.h"

#include "gtest/gtest.h"

namespace recurve::cli {
namespace {

Vocabulary Of(std::initializer_list<const char*> words) {
  v1::ModelVersion version;
  for (const char* word : words) version.add_vocabulary(word);
  return Vocabulary(version);
}

TEST(VocabularyTest, TakesTheLongestMatch) {
  const Vocabulary words = Of({"a", "ab", "abc", "c"});
  EXPECT_EQ(*words.Encode("abcabac"), (std::vector<int32_t>{2, 1, 0, 3}));
}

TEST(VocabularyTest, NamesWhatHasNoToken) {
  const auto tokens = Of({"a"}).Encode("aaz\n");
  ASSERT_FALSE(tokens.ok());
  EXPECT_EQ(tokens.status().message(),
            "no token of the model's vocabulary begins \"z\\n\", at byte 2");
}

TEST(VocabularyTest, WithoutWordsATokenIsAByte) {
  const Vocabulary bytes = Of({});
  EXPECT_EQ(*bytes.Encode("A\xff"), (std::vector<int32_t>{65, 255}));
  EXPECT_EQ(bytes.Decode(65), "A");
  EXPECT_EQ(bytes.Decode(256), "<256>");
}

TEST(VocabularyTest, KnowsOneCharacterFromSeveral) {
  EXPECT_TRUE(IsOneCharacter("a"));
  EXPECT_TRUE(IsOneCharacter("\xc3\xa9"));
  EXPECT_FALSE(IsOneCharacter(""));
  EXPECT_FALSE(IsOneCharacter("ab"));
  EXPECT_FALSE(IsOneCharacter("\xc3\xa9x"));
}

}  // namespace
}  // namespace recurve::cli
