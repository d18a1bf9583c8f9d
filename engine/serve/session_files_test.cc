#include "engine/serve/session_files.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/testing/fault_file_calls.h"
#include "engine/base/testing/faults.h"
#include "engine/model/test_models.h"
#include "engine/serve/session_operations.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

namespace fs = std::filesystem;

ModelHandle Version(const std::string& name, int hidden_size = 2) {
  return ModelVersion::InMemory(
      MakeModel(absl::StrCat("input { features { size: 1 } } blocks { sru { ",
                             "num_layers: 1 hidden_size: ", hidden_size,
                             " } }")),
      {}, name);
}

CarriedState::Values StateOf(SessionStore& store, const std::string& id) {
  CarriedState::Values carry;
  SnapshotSession(store, id, {}, [&](absl::StatusOr<SessionSnapshot> snapshot) {
    ASSERT_TRUE(snapshot.ok()) << snapshot.status();
    carry = snapshot->carry;
  });
  return carry;
}

class SessionFilesTest : public testing::Test {
 protected:
  SessionFilesTest() {
    const auto& info = *testing::UnitTest::GetInstance()->current_test_info();
    folder_ = absl::StrCat(testing::TempDir(), "/", info.name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    options_.clock = [this] { return now_; };
    store_ = std::make_unique<SessionStore>(options_);
    for (const char* name : {"models/m/versions/1", "models/m/versions/2"}) {
      versions_[name] = Version(name);
    }
  }
  ~SessionFilesTest() override { fs::remove_all(folder_); }

  void Create(const std::string& id, int number, float value) {
    const auto version = versions_[absl::StrCat("models/m/versions/", number)];
    ASSERT_TRUE(
        store_->Create({id, version, int64_t(value), {value, -value}}).ok());
  }
  SessionsOnDisk Save() {
    const auto saved = SaveSessions(*store_, Directory());
    EXPECT_TRUE(saved.ok()) << saved.status();
    return saved.value_or(SessionsOnDisk());
  }
  // Into a new store.
  absl::StatusOr<SessionsOnDisk> TryRestore() {
    store_ = std::make_unique<SessionStore>(options_);
    return RestoreSessions(
        Directory(),
        [this](const std::string& name) -> absl::StatusOr<ModelHandle> {
          const auto found = versions_.find(name);
          if (found != versions_.end()) return found->second;
          return absl::NotFoundError(absl::StrCat(name, " was deleted"));
        },
        *store_);
  }
  SessionsOnDisk Restore() {
    const auto restored = TryRestore();
    EXPECT_TRUE(restored.ok()) << restored.status();
    return restored.value_or(SessionsOnDisk());
  }
  std::string Directory() const { return folder_ + "/sessions"; }
  std::string Bytes() const {
    std::ifstream file(Directory() + "/1.sessions", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1000);
  SessionStore::Options options_;
  std::map<std::string, ModelHandle> versions_;
  std::unique_ptr<SessionStore> store_;
};

TEST_F(SessionFilesTest, ComeBackAsTheyWere) {
  Create("a", 1, 5);
  Create(std::string("kserve.m.\0x", 11), 2, 7);
  const absl::Time created = now_;
  EXPECT_EQ(Save().sessions, 2);
  now_ += absl::Hours(5);  // the server was away
  const SessionsOnDisk restored = Restore();
  EXPECT_EQ(restored.sessions, 2);
  EXPECT_TRUE(restored.lost.empty());
  const auto a = store_->Get("a");
  ASSERT_TRUE(a.ok());
  EXPECT_EQ(a->version, versions_["models/m/versions/1"]);
  EXPECT_EQ(a->position, 5);
  EXPECT_EQ(a->create_time, created);
  EXPECT_EQ(a->expire_time, now_ + absl::Minutes(10));
  EXPECT_EQ(StateOf(*store_, "a"), CarriedState::Values({5, -5}));
  EXPECT_EQ(StateOf(*store_, std::string("kserve.m.\0x", 11)),
            CarriedState::Values({7, -7}));
}

TEST_F(SessionFilesTest, ComeBackOnce) {
  Create("a", 1, 5);
  Save();
  EXPECT_EQ(Restore().sessions, 1);
  EXPECT_TRUE(fs::is_empty(folder_));
  EXPECT_EQ(Restore().sessions, 0);
}

TEST_F(SessionFilesTest, NoneLeaveNoFolder) {
  EXPECT_EQ(Save().sessions, 0);
  EXPECT_TRUE(fs::is_empty(folder_));
  EXPECT_EQ(Restore().sessions, 0);
}

TEST_F(SessionFilesTest, ThoseThatCannotGoOnAreSaid) {
  Create("a", 1, 5);
  Create("b", 2, 6);
  Save();
  versions_.erase("models/m/versions/1");
  versions_["models/m/versions/2"] = Version("models/m/versions/2", 3);
  const SessionsOnDisk restored = Restore();
  EXPECT_EQ(restored.sessions, 0);
  ASSERT_EQ(restored.lost.size(), 2u);
  EXPECT_EQ(restored.lost[0].message(),
            "sessions/a: models/m/versions/1 was deleted");
  EXPECT_TRUE(absl::IsFailedPrecondition(restored.lost[1]));
}

TEST_F(SessionFilesTest, ADamagedByteCostsItsSessionAlone) {
  for (int i = 0; i < 5; ++i) Create(absl::StrCat("s", i), 1, float(i));
  Save();
  const std::string bytes = Bytes();
  const size_t record = bytes.size() / 5;
  ASSERT_EQ(record * 5, bytes.size());
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] ^= 0x20;
    const ParsedSessions parsed = ParseSavedSessions(damaged);
    EXPECT_EQ(parsed.damaged.size(), 1u) << at;
    ASSERT_EQ(parsed.sessions.size(), 4u) << at;
    for (const SavedSession& session : parsed.sessions) {
      EXPECT_NE(session.id, absl::StrCat("s", at / record)) << at;
    }
  }
}

TEST_F(SessionFilesTest, WhatIsMissingCostsTheSessionsThatLoseBytes) {
  for (int i = 0; i < 3; ++i) Create(absl::StrCat("s", i), 1, float(i));
  Save();
  const std::string bytes = Bytes();
  const size_t record = bytes.size() / 3;
  for (size_t size = 0; size <= bytes.size(); ++size) {
    const ParsedSessions parsed = ParseSavedSessions(bytes.substr(0, size));
    EXPECT_EQ(parsed.sessions.size(), size / record);
    EXPECT_EQ(parsed.damaged.size(), size % record == 0 ? 0u : 1u) << size;
    const ParsedSessions rest = ParseSavedSessions(bytes.substr(size));
    EXPECT_EQ(rest.sessions.size(), (bytes.size() - size) / record);
  }
}

TEST_F(SessionFilesTest, ManyFillSeveralPages) {
  for (int i = 0; i < 1000; ++i) Create(absl::StrCat("s", i), 1, float(i));
  EXPECT_EQ(Save().sessions, 1000);
  EXPECT_EQ(Restore().sessions, 1000);
  EXPECT_EQ(StateOf(*store_, "s777"), CarriedState::Values({777, -777}));
}

TEST_F(SessionFilesTest, ADiskThatFailsLeavesNothingToSaveFrom) {
  Create("a", 1, 5);
  bool saved = false;
  for (int64_t n = 1; !saved; ++n) {
    Faults faults;
    faults.FailAt(n, EIO);
    FaultFileCalls calls(faults);
    saved = SaveSessions(*store_, Directory()).ok();
    EXPECT_EQ(fs::exists(Directory()), saved) << n;
  }
}

TEST_F(SessionFilesTest, AFolderThatStaysIsAnErrorAtTheStart) {
  Create("a", 1, 5);
  Save();
  bool gone = false;
  for (int64_t n = 1; !gone; ++n) {
    {
      Faults faults;
      faults.FailAt(n, EIO);
      FaultFileCalls calls(faults);
      gone = TryRestore().ok();
    }
    EXPECT_EQ(fs::exists(Directory()), !gone) << n;
  }
}

}  // namespace
}  // namespace recurve
