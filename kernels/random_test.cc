#include "kernels/random.h"

#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using testing::ElementsAre;

// Known answers: Random123's kat_vectors, philox4x32 10.
TEST(Philox, KnownAnswerForZeroCounterAndKey) {
  EXPECT_THAT(Philox({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
}

TEST(Philox, KnownAnswerForAllOnes) {
  EXPECT_THAT(Philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
                     {0xffffffff, 0xffffffff}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
}

TEST(Philox, KnownAnswerForDigitsOfPi) {
  EXPECT_THAT(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                     {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(Philox, EveryBitOfCounterAndKeyMatters) {
  std::set<RandomBlock> blocks = {Philox({0, 0, 0, 0}, {0, 0})};
  for (int word = 0; word < 4; ++word) {
    for (int bit = 0; bit < 32; ++bit) {
      RandomBlock counter = {};
      counter[word] = uint32_t{1} << bit;
      blocks.insert(Philox(counter, {0, 0}));
    }
  }
  for (int word = 0; word < 2; ++word) {
    for (int bit = 0; bit < 32; ++bit) {
      std::array<uint32_t, 2> key = {};
      key[word] = uint32_t{1} << bit;
      blocks.insert(Philox({0, 0, 0, 0}, key));
    }
  }
  EXPECT_EQ(blocks.size(), 1u + 6 * 32);
}

TEST(StreamKey, EveryFieldMatters) {
  const RandomKey base = {.seed = 1,
                          .purpose = RandomPurpose::kDropout,
                          .step = 2,
                          .accumulation = 3,
                          .layer = 4};
  std::vector<RandomKey> keys(8, base);
  keys[1].seed = 2;
  keys[2].seed += uint64_t{1} << 32;
  keys[3].purpose = RandomPurpose::kZoneout;
  keys[4].step += 1;
  keys[5].step += uint64_t{1} << 32;
  keys[6].accumulation += 1;
  keys[7].layer += 1;
  std::set<std::array<uint32_t, 2>> streams;
  for (const RandomKey& key : keys) streams.insert(StreamKey(key));
  EXPECT_EQ(streams.size(), keys.size());
}

TEST(StreamKey, FollowsTheDocumentedLayout) {
  const RandomKey key = {.seed = 0x0123456789abcdef,
                         .purpose = RandomPurpose::kCellDropout,
                         .step = 0x1122334455667788,
                         .accumulation = 7,
                         .layer = 5};
  const RandomBlock step =
      Philox({4, 0x55667788, 0x11223344, 0}, {0x89abcdef, 0x01234567});
  const RandomBlock stream = Philox({7, 5, 0, 0}, {step[0], step[1]});
  EXPECT_THAT(StreamKey(key), ElementsAre(stream[0], stream[1]));
}

// Seeds in users' hands stay good only while this value stays as it is.
TEST(StreamKey, NeverChanges) {
  const RandomKey key = {.seed = 42,
                         .purpose = RandomPurpose::kInitialize,
                         .step = 0,
                         .accumulation = 0,
                         .layer = 1};
  EXPECT_THAT(StreamKey(key), ElementsAre(0x5ed447f6, 0x21ff6722));
}

TEST(UniformFloat, CoversZeroToJustBelowOne) {
  EXPECT_EQ(UniformFloat(0), 0.0f);
  EXPECT_EQ(UniformFloat(0xff), 0.0f);
  EXPECT_EQ(UniformFloat(0x80000000), 0.5f);
  EXPECT_EQ(UniformFloat(0xffffffff), 1.0f - 0x1p-24f);
}

}  // namespace
}  // namespace recurve
