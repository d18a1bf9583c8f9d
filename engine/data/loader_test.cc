#include "engine/data/loader.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

std::shared_ptr<const Dataset> Sequences(int32_t count) {
  SequenceDataset data;
  for (int32_t i = 0; i < count; ++i) {
    data.sequences.tokens.push_back(i);
    data.sequences.cu_seqlens.push_back(i + 1);
    data.targets.classes.push_back(i);
  }
  return std::make_shared<Dataset>(std::move(data));
}

v1::LoaderConfig Config() {
  v1::LoaderConfig config;
  config.set_batch_size(3);
  return config;
}

std::unique_ptr<Loader> Load(int32_t count) {
  auto loader = Loader::Create(Sequences(count), Config(), 9);
  EXPECT_TRUE(loader.ok()) << loader.status();
  return *std::move(loader);
}

TEST(Loader, GivesTheMakersBatchesEpochAfterEpoch) {
  const auto loader = Load(20);
  const auto maker = *BatchMaker::Create(Sequences(20), Config(), 9);
  ASSERT_EQ(loader->batches_per_epoch(), 7);
  for (int64_t i = 0; i < 30; ++i) {
    ASSERT_EQ(loader->cursor().epoch, i / 7);
    ASSERT_EQ(loader->cursor().batch, i % 7);
    const Batch batch = loader->Next();
    ASSERT_EQ(batch.epoch, i / 7);
    ASSERT_EQ(batch.sequences.tokens,
              maker->Make(i / 7, i % 7).sequences.tokens);
  }
}

TEST(Loader, GoesOnFromAnyCursor) {
  std::vector<std::vector<int32_t>> all;
  std::vector<LoaderCursor> cursors;
  const auto loader = Load(20);
  for (int i = 0; i < 30; ++i) {
    cursors.push_back(loader->cursor());
    all.push_back(loader->Next().targets.classes);
  }
  for (int start : {0, 29, 7, 13, 6, 14}) {
    const auto resumed = Load(20);
    for (Loader* l : {loader.get(), resumed.get()}) {
      ASSERT_TRUE(l->Seek(cursors[start]).ok());
      for (int i = start; i < 30; ++i) {
        ASSERT_EQ(l->Next().targets.classes, all[i]) << start << " " << i;
      }
    }
  }
}

TEST(Loader, RefusesCursorsOutsideAnEpoch) {
  const auto loader = Load(20);
  for (const LoaderCursor& cursor :
       {LoaderCursor{0, 7}, LoaderCursor{0, -1}, LoaderCursor{-1, 0}}) {
    EXPECT_EQ(loader->Seek(cursor).code(), absl::StatusCode::kOutOfRange);
  }
  EXPECT_EQ(loader->cursor().batch, 0);
}

TEST(Loader, CanEndWhileItMakesBatches) {
  for (int i = 0; i < 200; ++i) {
    const auto loader = Load(3 + i);
    if (i % 2 == 0) {
      ASSERT_EQ(loader->Next().epoch, 0);
    }
  }
}

TEST(Loader, PassesOnWhatIsWrong) {
  EXPECT_EQ(Loader::Create(Sequences(3), v1::LoaderConfig(), 1).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace recurve
