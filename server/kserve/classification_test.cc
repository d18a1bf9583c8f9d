#include "server/kserve/classification.h"

#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace recurve::server::kserve {
namespace {

using Strings = std::vector<std::string>;

// What a client makes of BYTES.
Strings Elements(const std::string& bytes) {
  Strings elements;
  for (size_t at = 0; at < bytes.size();) {
    uint32_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof(length));
    elements.push_back(bytes.substr(at + sizeof(length), length));
    at += sizeof(length) + length;
  }
  return elements;
}

TEST(ClassificationTest, LargestFirstAndOfEqualsTheLowest) {
  std::string bytes;
  AppendClassification({0.5f, -1.f, 2.25f, 0.5f}, 3, {}, &bytes);
  EXPECT_EQ(Elements(bytes),
            (Strings{"2.250000:2", "0.500000:0", "0.500000:3"}));
}

TEST(ClassificationTest, LabelsComeLast) {
  std::string bytes;
  const Strings labels = {"a", "b:c"};
  AppendClassification({1.f, 2.f}, 2, labels, &bytes);
  EXPECT_EQ(Elements(bytes), (Strings{"2.000000:1:b:c", "1.000000:0:a"}));
}

TEST(ClassificationTest, PaddingIsEmpty) {
  std::string bytes;
  AppendClassification({1.f}, 1, {}, &bytes);
  AppendNoClassification(2, &bytes);
  EXPECT_EQ(Elements(bytes), (Strings{"1.000000:0", "", ""}));
}

}  // namespace
}  // namespace recurve::server::kserve
