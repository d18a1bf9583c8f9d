#include "server/access/tokens.h"

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/access/token_file.h"

namespace recurve::server {
namespace {

constexpr char kAda[] = "0123456789abcdef-ada";
constexpr char kBob[] = "0123456789abcdef-bob";

std::string ErrorOf(const std::string& text) {
  const auto tokens = Tokens::Parse(text);
  EXPECT_EQ(tokens.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(tokens.status().message());
}

TEST(TokensTest, FindsATokenAndItsScopes) {
  const auto tokens = Tokens::Parse(absl::StrCat(
      "# who  what\n\n ada ", kAda, "\tread,predict\r\nbob ", kBob, " admin"));
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  const Token* const ada = tokens->Find(kAda);
  ASSERT_NE(ada, nullptr);
  EXPECT_EQ(ada->name, "ada");
  EXPECT_TRUE(ada->scopes.Has(Scope::kOpen));
  EXPECT_TRUE(ada->scopes.Has(Scope::kRead));
  EXPECT_TRUE(ada->scopes.Has(Scope::kPredict));
  EXPECT_FALSE(ada->scopes.Has(Scope::kTrain));
  EXPECT_FALSE(ada->scopes.Has(Scope::kAdmin));
  EXPECT_EQ(ada->scopes.ToString(), "read,predict");
  ASSERT_NE(tokens->Find(kBob), nullptr);
  EXPECT_FALSE(tokens->Find(kBob)->scopes.Has(Scope::kRead));
}

TEST(TokensTest, FindsNothingElse) {
  const auto tokens = Tokens::Parse(absl::StrCat("ada ", kAda, " read"));
  ASSERT_TRUE(tokens.ok());
  EXPECT_EQ(tokens->Find(""), nullptr);
  EXPECT_EQ(tokens->Find("ada"), nullptr);
  EXPECT_EQ(tokens->Find(absl::StrCat(kAda, "x")), nullptr);
  EXPECT_EQ(tokens->Find(absl::string_view(kAda).substr(1)), nullptr);
}

TEST(TokensTest, SaysWhichLineIsWrongAndNotWhatTheTokenIs) {
  const std::string good = absl::StrCat("ada ", kAda, " read\n");
  EXPECT_EQ(ErrorOf(""), "there is no token in it");
  EXPECT_EQ(ErrorOf("# none\n"), "there is no token in it");
  EXPECT_EQ(ErrorOf("bob short read"),
            "line 1: the token has 5 characters, must have 16 or more");
  EXPECT_EQ(ErrorOf(good + "bob " + kBob),
            "line 2: has 2 words, must be NAME TOKEN SCOPES");
  EXPECT_EQ(ErrorOf(good + "bob " + kBob + " read, predict"),
            "line 2: has 4 words, must be NAME TOKEN SCOPES");
  EXPECT_EQ(ErrorOf(good + "ada " + kBob + " read"),
            "line 2: the name ada is there already");
  EXPECT_EQ(ErrorOf(good + "bob " + kAda + " read"),
            "line 2: the token is another line's");
  const std::string scope = ErrorOf(good + "\nbob " + kBob + " read,write");
  EXPECT_EQ(scope.find("line 3: \"write\" is no scope"), 0u) << scope;
  EXPECT_EQ(scope.find(kBob), std::string::npos);
  // Nobody is to grant what everybody has anyway.
  EXPECT_NE(ErrorOf("bob " + std::string(kBob) + " open").find("no scope"),
            std::string::npos);
}

class TokenFileTest : public testing::Test {
 protected:
  ~TokenFileTest() override { std::filesystem::remove(path_); }

  void Write(const std::string& text) const { std::ofstream(path_) << text; }
  void Open() {
    auto file = TokenFile::Open(path_, now_, [this](const absl::Status& what) {
      warnings_.emplace_back(what.message());
    });
    ASSERT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
  }
  bool Knows(const char* token) {
    return file_->Get(now_)->Find(token) != nullptr;
  }

  const std::string path_ = testing::TempDir() + "/tokens";
  absl::Time now_ = absl::UnixEpoch();
  std::vector<std::string> warnings_;
  std::unique_ptr<TokenFile> file_;
};

TEST_F(TokenFileTest, TakesNewTokensWithinAPeriod) {
  Write(absl::StrCat("ada ", kAda, " read"));
  Open();
  EXPECT_TRUE(Knows(kAda));
  Write(absl::StrCat("bob ", kBob, " read"));
  now_ += TokenFile::kPeriod - absl::Milliseconds(1);
  EXPECT_TRUE(Knows(kAda));
  now_ += absl::Milliseconds(1);
  EXPECT_FALSE(Knows(kAda));
  EXPECT_TRUE(Knows(kBob));
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(TokenFileTest, KeepsTheOldTokensOfABrokenFileAndSaysSoOnce) {
  Write(absl::StrCat("ada ", kAda, " read"));
  Open();
  Write("ada nothing");
  for (int i = 0; i < 3; ++i) {
    now_ += TokenFile::kPeriod;
    EXPECT_TRUE(Knows(kAda));
  }
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find(path_ + ": line 1: has 2 words"),
            std::string::npos)
      << warnings_[0];
  std::filesystem::remove(path_);
  now_ += TokenFile::kPeriod;
  EXPECT_TRUE(Knows(kAda));
  EXPECT_EQ(warnings_.size(), 2u);
  Write(absl::StrCat("bob ", kBob, " read"));
  now_ += TokenFile::kPeriod;
  EXPECT_FALSE(Knows(kAda));
  EXPECT_TRUE(Knows(kBob));
}

TEST_F(TokenFileTest, SurvivesAClockThatIsSetBack) {
  Write(absl::StrCat("ada ", kAda, " read"));
  Open();
  now_ -= absl::Hours(1);
  EXPECT_TRUE(Knows(kAda));
  Write(absl::StrCat("bob ", kBob, " read"));
  now_ += TokenFile::kPeriod;
  EXPECT_TRUE(Knows(kBob));
}

TEST_F(TokenFileTest, DoesNotOpenAFileThatIsNotThereOrBroken) {
  const auto open = [this] {
    return TokenFile::Open(path_, now_, nullptr).status();
  };
  EXPECT_EQ(open().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(open().message().find(path_), absl::string_view::npos);
  Write("ada");
  EXPECT_EQ(open().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(open().message().find(path_ + ": line 1"), absl::string_view::npos);
}

}  // namespace
}  // namespace recurve::server
