#include "engine/base/resource_id.h"

#include <string>

#include "gtest/gtest.h"

namespace recurve {
namespace {

TEST(ResourceIdTest, AcceptsSafeFileNames) {
  for (const std::string& id :
       {std::string("a"), std::string("0"), std::string("lm-2.b_c"),
        std::string(63, 'x')}) {
    EXPECT_TRUE(CheckResourceId(id, "model_id").ok()) << id;
  }
}

TEST(ResourceIdTest, RefusesEverythingElseAndNamesTheField) {
  for (const std::string& id :
       {std::string(), std::string("."), std::string(".."), std::string("-a"),
        std::string("A"), std::string("a/b"), std::string("a\0b", 3),
        std::string("a\xc3\xa4"), std::string(64, 'x')}) {
    const absl::Status status = CheckResourceId(id, "model_id");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << id;
    EXPECT_EQ(status.message().substr(0, 10), "model_id: ");
  }
}

TEST(ResourceIdTest, MessageStaysShort) {
  EXPECT_LT(CheckResourceId(std::string(1 << 20, 'x'), "id").message().size(),
            500u);
}

}  // namespace
}  // namespace recurve
