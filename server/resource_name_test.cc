#include "server/resource_name.h"

#include "gtest/gtest.h"

namespace recurve::server {
namespace {

TEST(ResourceNameTest, TakesTheIdOutOfAName) {
  EXPECT_EQ(*ParseName("datasets/kjv.txt", "datasets", "name"), "kjv.txt");
}

TEST(ResourceNameTest, SaysWhatANameLooksLike) {
  for (const char* name : {"", "kjv", "datasets", "datasets/", "datasets/A",
                           "datasets/a/b", "/datasets/a", "datasets/../a"}) {
    const absl::Status status = ParseName(name, "datasets", "name").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(status.message().substr(0, 6), "name: ") << status;
  }
}

TEST(ResourceNameTest, PageSizes) {
  EXPECT_EQ(*PageSize(0), 100);
  EXPECT_EQ(*PageSize(7), 7);
  EXPECT_EQ(*PageSize(1 << 30), 1000);
  EXPECT_EQ(PageSize(-1).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ResourceNameTest, RandomIdsDiffer) {
  EXPECT_EQ(IdOrRandom("mine", "t-"), "mine");
  EXPECT_EQ(IdOrRandom("", "t-").substr(0, 2), "t-");
  EXPECT_NE(IdOrRandom("", "t-"), IdOrRandom("", "t-"));
}

}  // namespace
}  // namespace recurve::server
