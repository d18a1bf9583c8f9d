#include "server/notice.h"

#include "gtest/gtest.h"

namespace recurve::server {
namespace {

TEST(NoticeTest, WakesEachListenerOnce) {
  Notice notice;
  int first = 0, second = 0;
  const auto a = notice.Listen([&first] { ++first; });
  const auto b = notice.Listen([&second] { ++second; });
  EXPECT_FALSE(notice.given());
  EXPECT_EQ(first, 0);
  notice.Give();
  notice.Give();
  EXPECT_TRUE(notice.given());
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
}

TEST(NoticeTest, WakesAtOnceWhoComesLate) {
  Notice notice;
  notice.Give();
  int woken = 0;
  const auto listener = notice.Listen([&woken] { ++woken; });
  EXPECT_EQ(woken, 1);
}

TEST(NoticeTest, WakesNobodyWhoHasLeft) {
  Notice notice;
  int woken = 0;
  notice.Listen([&woken] { ++woken; }).reset();
  notice.Give();
  EXPECT_EQ(woken, 0);
}

}  // namespace
}  // namespace recurve::server
