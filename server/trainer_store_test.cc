#include "server/trainer_store.h"

#include "gtest/gtest.h"

namespace recurve::server {
namespace {

absl::Status Nothing(TrainerEntry&) { return absl::OkStatus(); }

TEST(TrainerStoreTest, KeepsListsAndDeletes) {
  TrainerStore store(10);
  for (const char* id : {"c", "a", "b"}) {
    ASSERT_TRUE(store.Create(id, "", Nothing).ok());
  }
  EXPECT_EQ((*store.Get("b"))->id, "b");
  const auto page = store.List("a", 1);
  ASSERT_EQ(page.size(), 1u);
  EXPECT_EQ(page[0]->id, "b");
  EXPECT_TRUE(store.Delete("b").ok());
  EXPECT_EQ(store.Delete("b").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store.Get("b").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store.List("", 10).size(), 2u);
}

TEST(TrainerStoreTest, ARequestSeenBeforeGivesTheSameTrainer) {
  TrainerStore store(10);
  const auto first = *store.Create("a", "r", Nothing);
  EXPECT_EQ(*store.Create("b", "r", Nothing), first);
  EXPECT_EQ(store.Create("a", "s", Nothing).status().code(),
            absl::StatusCode::kAlreadyExists);
}

TEST(TrainerStoreTest, TheLimitHoldsAndFailuresGiveTheirPlaceBack) {
  TrainerStore store(1);
  EXPECT_EQ(store
                .Create("a", "r",
                        [](TrainerEntry&) { return absl::InternalError("no"); })
                .status()
                .code(),
            absl::StatusCode::kInternal);
  EXPECT_TRUE(store.Create("a", "r", Nothing).ok());
  EXPECT_EQ(store.Create("b", "", Nothing).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(TrainerStoreTest, ATrainerBeingMadeIsNotThereYet) {
  TrainerStore store(10);
  EXPECT_TRUE(store
                  .Create("a", "r",
                          [&](TrainerEntry&) {
                            EXPECT_EQ(store.Get("a").status().code(),
                                      absl::StatusCode::kNotFound);
                            EXPECT_EQ(
                                store.Create("x", "r", Nothing).status().code(),
                                absl::StatusCode::kAborted);
                            EXPECT_EQ(store.Delete("a").code(),
                                      absl::StatusCode::kAborted);
                            return absl::OkStatus();
                          })
                  .ok());
  EXPECT_TRUE(store.Get("a").ok());
}

}  // namespace
}  // namespace recurve::server
