#include "engine/base/sha256.h"

#include <string>

#include "gtest/gtest.h"

namespace recurve {
namespace {

// FIPS 180-4's examples.
TEST(Sha256Test, MatchesTheStandard) {
  EXPECT_EQ(Sha256Hex(""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Sha256Test, PiecesMakeNoDifference) {
  const std::string text(1000, 'x');
  Sha256 sha256;
  sha256.Update(text.substr(0, 63));
  sha256.Update("");
  sha256.Update(text.substr(63));
  EXPECT_EQ(sha256.Finish(), Sha256Hex(text));
}

}  // namespace
}  // namespace recurve
