#include "engine/serve/stop_matcher.h"

#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace recurve {
namespace {

using Strings = std::vector<std::string>;

// What comes out of each piece, and at last of Finish.
Strings Match(const Strings& stops, const Strings& pieces) {
  StopMatcher matcher(stops);
  Strings out;
  for (const std::string& piece : pieces) {
    if (!matcher.stopped()) out.push_back(matcher.Add(piece));
  }
  out.push_back(matcher.stopped() ? "|" : matcher.Finish());
  return out;
}

std::string Join(const Strings& pieces) {
  std::string all;
  for (const std::string& piece : pieces) all += piece;
  return all;
}

TEST(StopMatcherTest, TextPassesAtOnceWhereNothingMayBegin) {
  EXPECT_EQ(Match({}, {"ab", "c"}), (Strings{"ab", "c", ""}));
  EXPECT_EQ(Match({"xyz"}, {"ab", "c"}), (Strings{"ab", "c", ""}));
}

TEST(StopMatcherTest, TextInWhichAStopMayBeginIsHeldBack) {
  EXPECT_EQ(Match({"\n\n"}, {"a\n", "b"}), (Strings{"a", "\nb", ""}));
  EXPECT_EQ(Match({"\n\n"}, {"a\n", "\nb"}), (Strings{"a", "", "|"}));
  EXPECT_EQ(Match({"abcd"}, {"xabc", "d"}), (Strings{"x", "", "|"}));
  EXPECT_EQ(Match({"abcd"}, {"xabc", "abc", "e"}),
            (Strings{"x", "abc", "abce", ""}));
  EXPECT_EQ(Match({"abcd"}, {"xab"}), (Strings{"x", "ab"}));
}

TEST(StopMatcherTest, AStopWithinAPieceEndsTheTextThere) {
  EXPECT_EQ(Match({"cd"}, {"abcdef", "g"}), (Strings{"ab", "|"}));
  EXPECT_EQ(Match({"aab"}, {"aaab"}), (Strings{"a", "|"}));
}

TEST(StopMatcherTest, TheFirstToBeCompleteHolds) {
  EXPECT_EQ(Match({"abcd", "bc"}, {"xabcd"}), (Strings{"xa", "|"}));
  EXPECT_EQ(Match({"c", "abc"}, {"xabcd"}), (Strings{"x", "|"}));
}

TEST(StopMatcherTest, CharactersAreNotCut) {
  EXPECT_EQ(Match({}, {"a\xc3", "\xa4"}), (Strings{"a", "\xc3\xa4", ""}));
  EXPECT_EQ(Match({}, {"\xe2", "\x82", "\xac"}),
            (Strings{"", "", "\xe2\x82\xac", ""}));
  EXPECT_EQ(Match({}, {"\xf0\x9f\x98", "\x80"}),
            (Strings{"", "\xf0\x9f\x98\x80", ""}));
  // The stop's first bytes are those of another character.
  EXPECT_EQ(Match({"\xc3\xa4"}, {"\xc3\xa5"}), (Strings{"\xc3\xa5", ""}));
  // What is no UTF-8 is not waited for.
  EXPECT_EQ(Match({}, {"\xa4\xa4\xa4\xa4"}), (Strings{"\xa4\xa4\xa4\xa4", ""}));
}

// Byte by byte: the text before the first byte at which a stop string ends.
std::string Slow(const Strings& stops, const std::string& text) {
  for (size_t end = 0; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (end >= stop.size() &&
          text.compare(end - stop.size(), stop.size(), stop) == 0) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) return text.substr(0, end - longest) + "|";
  }
  return text;
}

TEST(StopMatcherTest, HoweverTheTextIsCutTheSameComesOut) {
  std::mt19937 random(1);
  const auto text_of = [&](size_t length) {
    std::string text;
    while (text.size() < length) text += static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int i = 0; i < 5000; ++i) {
    Strings stops(random() % 4);
    for (std::string& stop : stops) stop = text_of(1 + random() % 5);
    const std::string text = text_of(random() % 20);
    Strings pieces;
    for (size_t at = 0; at < text.size();) {
      pieces.push_back(text.substr(at, 1 + random() % 4));
      at += pieces.back().size();
    }
    EXPECT_EQ(Join(Match(stops, pieces)), Slow(stops, text)) << text;
  }
}

}  // namespace
}  // namespace recurve
