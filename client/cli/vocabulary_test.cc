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

v1::ModelVersion LanguageModel(int size) {
  v1::ModelVersion version;
  v1::ModelConfig& config = *version.mutable_config();
  config.mutable_input()->mutable_token_embedding()->set_vocabulary_size(size);
  config.mutable_output()->mutable_linear()->set_size(size);
  return version;
}

TEST(VocabularyTest, ClassesOfLanguageModelsHaveText) {
  EXPECT_TRUE(ClassesHaveText(LanguageModel(256)));
  v1::ModelVersion version = LanguageModel(1);
  EXPECT_FALSE(ClassesHaveText(version)) << "no vocabulary, not bytes";
  version.add_vocabulary("a");
  EXPECT_TRUE(ClassesHaveText(version));
}

TEST(VocabularyTest, ClassesOfOtherModelsAreNumbers) {
  v1::ModelVersion pooled = LanguageModel(1);
  pooled.add_vocabulary("a");
  pooled.mutable_config()->mutable_output()->set_pooling(
      v1::Output::POOLING_LAST);
  EXPECT_FALSE(ClassesHaveText(pooled));
  v1::ModelVersion classifier = LanguageModel(256);
  classifier.mutable_config()->mutable_output()->mutable_linear()->set_size(2);
  EXPECT_FALSE(ClassesHaveText(classifier));
  v1::ModelVersion features = LanguageModel(256);
  features.mutable_config()->mutable_input()->mutable_features()->set_size(256);
  EXPECT_FALSE(ClassesHaveText(features));
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
