#include "engine/data/arrays.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A version 1.0 file of numbers of type T, `type` in NumPy's words.
template <typename T>
std::string Npy(const std::string& type, const std::vector<int64_t>& shape,
                const std::vector<T>& values) {
  const std::string header =
      absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': (",
                   absl::StrJoin(shape, ", "), ",), }\n");
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 0xFF);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  file.append(reinterpret_cast<const char*>(values.data()),
              values.size() * sizeof(T));
  return file;
}
std::string Floats(const std::vector<int64_t>& shape,
                   const std::vector<float>& values) {
  return Npy("<f4", shape, values);
}
std::string Integers(const std::vector<int64_t>& shape,
                     const std::vector<int64_t>& values) {
  return Npy("<i8", shape, values);
}

SequenceDataset Parse(const std::string& inputs, const std::string& targets) {
  auto dataset = ParseArrays(inputs, targets);
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  return dataset.ok() ? *std::move(dataset) : SequenceDataset();
}

std::string Error(const std::string& inputs, const std::string& targets) {
  const absl::Status status = ParseArrays(inputs, targets).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(Arrays, FeaturesWithAClassASequence) {
  const SequenceDataset data =
      Parse(Floats({2, 2, 3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}),
            Integers({2}, {1, -1}));
  EXPECT_EQ(data.feature_size, 3);
  EXPECT_THAT(data.sequences.cu_seqlens, ElementsAre(0, 2, 4));
  EXPECT_EQ(data.sequences.features[7], 7);
  EXPECT_THAT(data.targets.classes, ElementsAre(1, -1));
  EXPECT_FALSE(data.per_step);
  EXPECT_EQ(data.target_size, 0);
}

TEST(Arrays, DoublesBecomeFloats) {
  const SequenceDataset data =
      Parse(Npy<double>("<f8", {1, 2, 1}, {0.1, 1e-50}),
            Npy<double>("<f8", {1}, {0.7}));
  EXPECT_THAT(data.sequences.features, ElementsAre(0.1f, 0));
  EXPECT_THAT(data.targets.values, ElementsAre(0.7f));
  EXPECT_EQ(data.target_size, 1);
}

TEST(Arrays, TokensWithTargetsOfEveryShape) {
  const std::string tokens = Npy<uint8_t>("|u1", {2, 2}, {1, 2, 3, 255});
  SequenceDataset data = Parse(tokens, Integers({2, 2}, {4, 5, 6, 7}));
  EXPECT_THAT(data.sequences.tokens, ElementsAre(1, 2, 3, 255));
  EXPECT_TRUE(data.per_step);
  EXPECT_THAT(data.targets.classes, ElementsAre(4, 5, 6, 7));
  data = Parse(tokens, Floats({2, 3}, {1, 2, 3, 4, 5, 6}));
  EXPECT_FALSE(data.per_step);
  EXPECT_EQ(data.target_size, 3);
  data = Parse(tokens, Floats({2, 2, 1}, {1, 2, 3, 4}));
  EXPECT_TRUE(data.per_step);
  EXPECT_EQ(data.target_size, 1);
  EXPECT_THAT(data.targets.values, ElementsAre(1, 2, 3, 4));
  EXPECT_FALSE(data.next_token);
}

TEST(Arrays, TokensAlonePredictTheNext) {
  const SequenceDataset data = Parse(Integers({2, 3}, {1, 2, 3, 4, 5, 6}), "");
  EXPECT_THAT(data.sequences.cu_seqlens, ElementsAre(0, 2, 4));
  EXPECT_THAT(data.sequences.tokens, ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(data.targets.classes, ElementsAre(2, 3, 5, 6));
  EXPECT_TRUE(data.per_step);
  EXPECT_TRUE(data.next_token);
}

TEST(Arrays, NameThePlaceOfABadNumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const std::string classes = Integers({2}, {0, 0});
  EXPECT_THAT(Error(Floats({2, 1, 2}, {0, 1, 2, nan}), classes),
              HasSubstr("array: nan at [1, 0, 1]"));
  EXPECT_THAT(Error(Floats({2, 1, 1}, {1, 2}), Floats({2}, {1, inf})),
              HasSubstr("targets: inf at [1]"));
  EXPECT_THAT(Error(Integers({2, 2}, {1, 2, -3, 4}), classes),
              HasSubstr("array: -3 at [1, 0]"));
  EXPECT_THAT(Error(Integers({2, 1}, {1, 1}), Integers({2}, {0, 1LL << 31})),
              HasSubstr("targets: 2147483648 at [1]"));
}

TEST(Arrays, RefuseShapesThatDoNotFit) {
  const std::string tokens = Integers({2, 2}, {1, 2, 3, 4});
  EXPECT_THAT(Error(Integers({4}, {1, 2, 3, 4}), ""), HasSubstr("shape [4]"));
  EXPECT_THAT(Error(Floats({2, 2}, {1, 2, 3, 4}), ""),
              HasSubstr("shape [2, 2]"));
  EXPECT_THAT(Error(Integers({2, 0}, {}), ""), HasSubstr("shape [2, 0]"));
  EXPECT_THAT(Error(Integers({2, 1}, {1, 2}), ""), HasSubstr("no next"));
  EXPECT_THAT(Error(Floats({1, 1, 1}, {1}), ""), HasSubstr("need targets"));
  EXPECT_THAT(Error(tokens, Integers({3}, {1, 2, 3})),
              HasSubstr("targets: shape [3] for 2 sequences of 2 steps"));
  EXPECT_THAT(Error(tokens, Integers({2, 1}, {1, 2})),
              HasSubstr("targets: shape [2, 1]"));
  EXPECT_THAT(Error(tokens, Floats({2, 1, 1}, {1, 2})),
              HasSubstr("targets: shape [2, 1, 1]"));
  EXPECT_THAT(Error(tokens, Integers({2, 2, 1}, {1, 2, 3, 4})),
              HasSubstr("targets: shape [2, 2, 1]"));
  EXPECT_THAT(Error(tokens, Floats({2, 0}, {})), HasSubstr("shape [2, 0]"));
}

TEST(Arrays, SayWhichFileIsNoArray) {
  EXPECT_THAT(Error("hello, I am text", ""), HasSubstr("array: "));
  EXPECT_THAT(Error(Integers({1, 1}, {1}), "hello, I am text"),
              HasSubstr("targets: "));
}

}  // namespace
}  // namespace recurve
