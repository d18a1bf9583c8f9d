#include "engine/data/dataset_store.h"

#include <cctype>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/sha256.h"
#include "engine/base/testing/fault_file_calls.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class DatasetStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(base_);
    fs::create_directories(base_ / "root");
    options_.directory = base_ / "datasets";
    options_.data_root = base_ / "root";
    Reopen();
  }
  void TearDown() override {
    store_.reset();
    fs::remove_all(base_);
  }

  void Reopen() {
    store_.reset();
    auto store = DatasetStore::Open(options_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  absl::StatusOr<DatasetInfo> Put(const std::string& id,
                                  const std::string& bytes,
                                  const std::string& sha256 = "") {
    auto upload = store_->StartUpload(id, sha256);
    if (!upload.ok()) return upload.status();
    for (size_t i = 0; i < bytes.size(); i += 3) {
      if (absl::Status status = (*upload)->Append(bytes.substr(i, 3));
          !status.ok()) {
        return status;
      }
    }
    return (*upload)->Commit();
  }

  absl::StatusOr<std::string> Read(const std::string& name) {
    v1::DataSource source;
    source.set_dataset(name);
    return store_->Read(source);
  }

  std::vector<std::string> Ids() {
    std::vector<std::string> ids;
    const DatasetPage page = *store_->List(0, "");
    for (const DatasetInfo& info : page.datasets) {
      ids.push_back(info.id);
    }
    return ids;
  }

  // Names in the store's folder.
  std::vector<std::string> Files() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(options_.directory)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  const fs::path base_ =
      fs::path(::testing::TempDir()) /
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  DatasetStore::Options options_;
  std::unique_ptr<DatasetStore> store_;
};

TEST_F(DatasetStoreTest, KeepsWhatWasUploadedAcrossRestarts) {
  const auto info = Put("bible", "In the beginning");
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->sha256, Sha256Hex("In the beginning"));
  EXPECT_EQ(info->size_bytes, 16);
  Reopen();
  const auto again = store_->Get("bible");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->sha256, info->sha256);
  EXPECT_EQ(again->size_bytes, 16);
  EXPECT_EQ(again->create_time, info->create_time);
  EXPECT_EQ(*Read("datasets/bible"), "In the beginning");
}

TEST_F(DatasetStoreTest, NothingIsVisibleBeforeCommitNorLeftAfterwards) {
  {
    auto upload = store_->StartUpload("half", "");
    ASSERT_TRUE(upload.ok());
    ASSERT_TRUE((*upload)->Append("half of it").ok());
    EXPECT_EQ(store_->Get("half").status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(Ids(), IsEmpty());
    EXPECT_EQ(Files().size(), 1u);
  }
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(DatasetStoreTest, SweepsWhatACrashLeft) {
  ASSERT_TRUE(Put("kept", "bytes").ok());
  fs::create_directories(fs::path(options_.directory) / ".aside-7");
  std::ofstream(fs::path(options_.directory) / ".aside-7/data") << "half";
  Reopen();
  EXPECT_THAT(Files(), ElementsAre("kept"));
  EXPECT_TRUE(Put("next", "bytes").ok());
}

TEST_F(DatasetStoreTest, TheSameBytesAgainAreTheSameDataset) {
  const auto first = Put("a", "bytes");
  ASSERT_TRUE(first.ok());
  const auto second = Put("a", "bytes", Sha256Hex("bytes"));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->create_time, first->create_time);
  EXPECT_EQ(Put("a", "other").status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->StartUpload("a", Sha256Hex("other")).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(*Read("datasets/a"), "bytes");
}

TEST_F(DatasetStoreTest, RefusesOtherBytesThanPromised) {
  EXPECT_EQ(Put("a", "bytes", Sha256Hex("other")).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_EQ(Put("a", "bytes", "abc").status().code(),
            absl::StatusCode::kInvalidArgument);
  std::string upper = Sha256Hex("bytes");
  for (char& c : upper) c = static_cast<char>(std::toupper(c));
  EXPECT_TRUE(Put("a", "bytes", upper).ok());
}

TEST_F(DatasetStoreTest, RefusesBadIds) {
  for (const char* id : {"", ".hidden", "../a", "a/b", "A"}) {
    EXPECT_EQ(store_->StartUpload(id, "").status().code(),
              absl::StatusCode::kInvalidArgument)
        << id;
  }
}

TEST_F(DatasetStoreTest, LimitsSizeAndNumberOfUploads) {
  options_.max_upload_bytes = 10;
  options_.max_uploads = 1;
  Reopen();
  EXPECT_TRUE(Put("most", "0123456789").ok());
  EXPECT_EQ(Put("more", "0123456789x").status().code(),
            absl::StatusCode::kResourceExhausted);
  auto upload = store_->StartUpload("one", "");
  ASSERT_TRUE(upload.ok());
  EXPECT_EQ(store_->StartUpload("two", "").status().code(),
            absl::StatusCode::kResourceExhausted);
  upload->reset();
  EXPECT_TRUE(store_->StartUpload("two", "").ok());
}

TEST_F(DatasetStoreTest, AnUploadEndsOnce) {
  auto upload = store_->StartUpload("a", "");
  ASSERT_TRUE((*upload)->Append("x").ok());
  ASSERT_TRUE((*upload)->Commit().ok());
  EXPECT_EQ((*upload)->Commit().status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ((*upload)->Append("y").code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(*Read("datasets/a"), "x");
}

TEST_F(DatasetStoreTest, Deletes) {
  ASSERT_TRUE(Put("a", "bytes").ok());
  ASSERT_TRUE(store_->Delete("a").ok());
  EXPECT_EQ(store_->Delete("a").code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Read("datasets/a").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Files(), IsEmpty());
  EXPECT_TRUE(Put("a", "new bytes").ok());
}

TEST_F(DatasetStoreTest, AnUploadIsKeptWholeOrLeavesNothing) {
  Faults faults;
  FaultFileCalls calls(faults);
  for (int64_t n = 1;; ++n) {
    faults.FailAt(n, ENOSPC);
    const absl::Status status = Put("a", "bytes").status();
    if (!faults.Disarm()) break;
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted)
        << faults.where();
    EXPECT_THAT(Ids(), IsEmpty());
    EXPECT_THAT(Files(), IsEmpty()) << faults.where();
  }
  Reopen();
  EXPECT_EQ(*Read("datasets/a"), "bytes");
}

// What then appears after a restart was never acknowledged, but it is whole.
TEST_F(DatasetStoreTest, ADiskThatStaysBrokenLeavesNoHalfDataset) {
  Faults faults;
  FaultFileCalls calls(faults);
  for (int64_t n = 1;; ++n) {
    faults.FailAt(n, EIO, Faults::kFromThen);
    const absl::Status status = Put("a", "bytes").status();
    if (!faults.Disarm()) break;
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(Ids(), IsEmpty());
    if (n % 2 == 0) Reopen();
    EXPECT_TRUE(Put("a", "bytes").ok()) << faults.where();
    Reopen();
    EXPECT_EQ(*Read("datasets/a"), "bytes") << faults.where();
    EXPECT_THAT(Files(), ElementsAre("a")) << faults.where();
    ASSERT_TRUE(store_->Delete("a").ok());
  }
}

TEST_F(DatasetStoreTest, ADatasetIsDeletedOrAsItWas) {
  Faults faults;
  FaultFileCalls calls(faults);
  for (int64_t n = 1;; ++n) {
    ASSERT_TRUE(Put("a", "bytes").ok());
    faults.FailAt(n, EIO);
    const bool deleted = store_->Delete("a").ok();
    if (!faults.Disarm()) break;
    EXPECT_EQ(Read("datasets/a").ok(), !deleted) << faults.where();
    Reopen();
    EXPECT_EQ(Read("datasets/a").ok(), !deleted) << faults.where();
  }
  EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(DatasetStoreTest, ListsInPages) {
  for (const char* id : {"c", "a", "b"}) ASSERT_TRUE(Put(id, id).ok());
  const auto first = store_->List(2, "");
  ASSERT_EQ(first->datasets.size(), 2u);
  EXPECT_EQ(first->datasets[0].id, "a");
  EXPECT_EQ(first->datasets[1].id, "b");
  const auto second = store_->List(2, first->next_page_token);
  ASSERT_EQ(second->datasets.size(), 1u);
  EXPECT_EQ(second->datasets[0].id, "c");
  EXPECT_EQ(second->next_page_token, "");
  EXPECT_EQ(store_->List(3, "")->next_page_token, "");
  EXPECT_EQ(store_->List(-1, "").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(DatasetStoreTest, ADamagedDatasetIsSaidToBeAndHindersNoOther) {
  ASSERT_TRUE(Put("changed", "bytes").ok());
  ASSERT_TRUE(Put("cut", "bytes").ok());
  ASSERT_TRUE(Put("garbled", "bytes").ok());
  ASSERT_TRUE(Put("good", "bytes").ok());
  const fs::path folder = options_.directory;
  std::ofstream(folder / "changed/data") << "BYTES";
  std::ofstream(folder / "cut/data") << "by";
  std::ofstream(folder / "garbled/metadata.json") << "{\"size_bytes\": 5}";
  Reopen();
  EXPECT_EQ(Read("datasets/changed").status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(Read("datasets/cut").status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(store_->Get("garbled").status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(*Read("datasets/good"), "bytes");
  EXPECT_THAT(Ids(), ElementsAre("changed", "good"));
  EXPECT_TRUE(store_->Delete("cut").ok());
}

TEST_F(DatasetStoreTest, ReadsServerPathsBeneathTheRootOnly) {
  std::ofstream(base_ / "root/text") << "text";
  v1::DataSource source;
  source.set_server_path("text");
  EXPECT_EQ(*store_->Read(source), "text");
  source.set_server_path("../datasets");
  EXPECT_EQ(store_->Read(source).status().code(),
            absl::StatusCode::kInvalidArgument);
  options_.data_root.clear();
  Reopen();
  source.set_server_path("text");
  EXPECT_EQ(store_->Read(source).status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST_F(DatasetStoreTest, RefusesSourcesThatAreNotTheServers) {
  v1::DataSource source;
  EXPECT_EQ(store_->Read(source).status().code(),
            absl::StatusCode::kInvalidArgument);
  source.set_local_file("text");
  EXPECT_EQ(store_->Read(source).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Read("bible").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Read("datasets/../x").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace recurve
