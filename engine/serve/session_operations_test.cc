#include "engine/serve/session_operations.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/test_models.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

ModelHandle Version(const std::string& name, int hidden_size = 2) {
  return ModelVersion::InMemory(
      MakeModel(absl::StrCat("input { features { size: 1 } } blocks { sru { ",
                             "num_layers: 1 hidden_size: ", hidden_size,
                             " } }")),
      {}, name);
}

// What an operation that is done at once answers.
template <typename T>
struct Answer {
  std::function<void(absl::StatusOr<T>)> Take() {
    return [this](absl::StatusOr<T> given) { value = std::move(given); };
  }
  bool come() const { return !absl::IsUnknown(value.status()); }

  absl::StatusOr<T> value = absl::UnknownError("no answer yet");
};

class SessionOperationsTest : public testing::Test {
 protected:
  SessionOperationsTest() {
    EXPECT_TRUE(store_.Create({"a", version_, 3, {1, 2}}).ok());
  }

  SessionSnapshot Snapshot(const std::string& id) {
    Answer<SessionSnapshot> answer;
    SnapshotSession(store_, id, {}, answer.Take());
    EXPECT_TRUE(answer.value.ok()) << answer.value.status();
    return answer.value.value_or(SessionSnapshot());
  }

  ModelHandle version_ = Version("models/m/versions/1");
  SessionStore store_{SessionStore::Options()};
};

TEST_F(SessionOperationsTest, ASnapshotIsRestoredAsAnotherSession) {
  const SessionSnapshot snapshot = Snapshot("a");
  EXPECT_EQ(snapshot.model_version, "models/m/versions/1");
  EXPECT_EQ(snapshot.position, 3);
  EXPECT_EQ(snapshot.carry, CarriedState::Values({1, 2}));
  const ModelHandle newer = Version("models/m/versions/2");
  const auto restored = RestoreSession(store_, "b", newer, snapshot);
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->version, newer);
  EXPECT_EQ(restored->position, 3);
  EXPECT_EQ(Snapshot("b").carry, snapshot.carry);
  EXPECT_TRUE(absl::IsAlreadyExists(
      RestoreSession(store_, "a", newer, snapshot).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(
      RestoreSession(store_, "c", Version("models/n/versions/1", 3), snapshot)
          .status()));
}

TEST_F(SessionOperationsTest, AForkGoesItsOwnWay) {
  Answer<SessionInfo> fork;
  ForkSession(store_, "a", "b", {}, fork.Take());
  ASSERT_TRUE(fork.value.ok()) << fork.value.status();
  EXPECT_EQ(fork.value->position, 3);
  EXPECT_EQ(fork.value->version, version_);
  ASSERT_TRUE(store_.Delete("a").ok());
  EXPECT_EQ(Snapshot("b").carry, CarriedState::Values({1, 2}));
}

TEST_F(SessionOperationsTest, AForkDoesNotReplaceASession) {
  ASSERT_TRUE(store_.Create({"b", version_, 1, {7, 8}}).ok());
  Answer<SessionInfo> fork;
  ForkSession(store_, "a", "b", {}, fork.Take());
  EXPECT_TRUE(absl::IsAlreadyExists(fork.value.status()));
  Answer<SessionInfo> itself;
  ForkSession(store_, "a", "a", {}, itself.Take());
  EXPECT_TRUE(absl::IsAlreadyExists(itself.value.status()));
  EXPECT_EQ(Snapshot("b").carry, CarriedState::Values({7, 8}));
}

TEST_F(SessionOperationsTest, MovesWhereTheStateFitsAlone) {
  Answer<SessionInfo> refused;
  MoveSession(store_, "a", Version("models/m/versions/2", 3), {},
              refused.Take());
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.value.status()));
  EXPECT_EQ(store_.Get("a")->version, version_);

  const ModelHandle newer = Version("models/m/versions/3");
  Answer<SessionInfo> moved;
  MoveSession(store_, "a", newer, {}, moved.Take());
  ASSERT_TRUE(moved.value.ok()) << moved.value.status();
  EXPECT_EQ(moved.value->version, newer);
  EXPECT_EQ(Snapshot("a").carry, CarriedState::Values({1, 2}));
}

TEST_F(SessionOperationsTest, WaitForTheRequestBeforeThem) {
  SessionUse use;
  use.id = "a";
  SessionStore::Lease lease;
  store_.Acquire(use, [&](absl::StatusOr<SessionStore::Lease> given) {
    lease = *std::move(given);
  });
  Answer<SessionSnapshot> snapshot;
  SnapshotSession(store_, "a", {}, snapshot.Take());
  Answer<SessionInfo> fork;
  ForkSession(store_, "a", "b", {}, fork.Take());
  EXPECT_FALSE(snapshot.come());
  lease->CommitState(CarriedState::Create({5, 6}, CarriedState::Kind::kPooled),
                     1);
  lease.reset();
  ASSERT_TRUE(snapshot.value.ok());
  EXPECT_EQ(snapshot.value->carry, CarriedState::Values({5, 6}));
  EXPECT_EQ(snapshot.value->position, 4);
  ASSERT_TRUE(fork.value.ok());
  EXPECT_EQ(fork.value->position, 4);
}

TEST_F(SessionOperationsTest, OfNoSessionAreNotFound) {
  Answer<SessionSnapshot> snapshot;
  SnapshotSession(store_, "x", {}, snapshot.Take());
  EXPECT_TRUE(absl::IsNotFound(snapshot.value.status()));
  Answer<SessionInfo> fork;
  ForkSession(store_, "x", "y", {}, fork.Take());
  EXPECT_TRUE(absl::IsNotFound(fork.value.status()));
  Answer<SessionInfo> moved;
  MoveSession(store_, "x", version_, {}, moved.Take());
  EXPECT_TRUE(absl::IsNotFound(moved.value.status()));
}

}  // namespace
}  // namespace recurve
