#include "engine/serve/session_store.h"

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/test_models.h"
#include "engine/serve/session_rows.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using Lease = SessionStore::Lease;

ModelHandle Version(const std::string& name, int hidden_size = 2,
                    const char* options = "") {
  return ModelVersion::InMemory(
      MakeModel(absl::StrCat("input { features { size: 1 } } blocks { sru { ",
                             "num_layers: 1 hidden_size: ", hidden_size, " ",
                             options, " } }")),
      {}, name);
}

// A request that has been answered, or waits.
struct Answer {
  bool come = false;
  absl::Status status;
  Lease lease;
};

class SessionStoreTest : public testing::Test {
 protected:
  SessionStoreTest() { MakeStore(); }

  void MakeStore() {
    options_.clock = [this] { return now_; };
    store_ = std::make_unique<SessionStore>(options_);
  }

  std::shared_ptr<Answer> Acquire(SessionUse use) {
    auto answer = std::make_shared<Answer>();
    store_->Acquire(std::move(use), [answer](absl::StatusOr<Lease> lease) {
      EXPECT_FALSE(answer->come);
      answer->come = true;
      answer->status = lease.status();
      if (lease.ok()) answer->lease = *std::move(lease);
    });
    return answer;
  }

  SessionUse Start(const std::string& id) const {
    SessionUse use;
    use.id = id;
    use.start = true;
    use.version = version_;
    return use;
  }
  static SessionUse Next(const std::string& id) {
    SessionUse use;
    use.id = id;
    return use;
  }
  static SessionUse At(SessionUse use, int64_t position,
                       const std::string& input) {
    use.position = position;
    use.input_hash = input;
    return use;
  }
  static SessionUse Last(SessionUse use) {
    use.end = true;
    return use;
  }

  // What a model would do: the state after a row is ten times the one before,
  // and the row. Returns the state after the rows.
  static float Run(const Lease& lease, const std::vector<float>& rows) {
    CarriedState& state = *lease->state();
    float value =
        state.row(lease->replay() ? state.other() : state.committed())[0];
    for (const float row : rows) value = 10 * value + row;
    if (lease->replay()) return value;
    state.BeginWrite();
    state.row(state.other())[0] = value;
    state.Commit();
    return value;
  }

  // Acquired at once, run and committed: the state after the rows.
  float Do(SessionUse use, const std::vector<float>& rows) {
    const auto answer = Acquire(std::move(use));
    EXPECT_TRUE(answer->come && answer->status.ok()) << answer->status;
    if (answer->lease == nullptr) return -1;
    const float value = Run(answer->lease, rows);
    answer->lease->Commit(static_cast<int64_t>(rows.size()));
    answer->lease.reset();
    return value;
  }

  void ExpectRefused(SessionUse use, absl::StatusCode code,
                     const std::string& word = "") {
    const auto answer = Acquire(std::move(use));
    EXPECT_TRUE(answer->come);
    EXPECT_EQ(answer->status.code(), code) << answer->status;
    EXPECT_NE(answer->status.message().find(word), std::string::npos)
        << answer->status;
  }

  int64_t PositionOf(const std::string& id) {
    const auto info = store_->Get(id);
    return info.ok() ? info->position : -1;
  }

  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1000);
  SessionStore::Options options_;
  std::unique_ptr<SessionStore> store_;
  ModelHandle version_ = Version("models/m/versions/1");
};

constexpr int64_t kMostRows = std::numeric_limits<int64_t>::max();
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kNotFound = absl::StatusCode::kNotFound;
constexpr auto kPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;
constexpr auto kCancelled = absl::StatusCode::kCancelled;

TEST_F(SessionStoreTest, GoesOnFromRequestToRequest) {
  EXPECT_EQ(Do(Start("a"), {1, 2}), 12);
  EXPECT_EQ(Do(Next("a"), {3}), 123);
  EXPECT_EQ(Do(Start("b"), {7}), 7);
  EXPECT_EQ(Do(Next("a"), {4}), 1234);
  EXPECT_EQ(PositionOf("a"), 4);
  EXPECT_EQ(PositionOf("b"), 1);
}

TEST_F(SessionStoreTest, OneThatDoesNotCommitLeavesItAsItWas) {
  Do(Start("a"), {1});
  Acquire(Next("a"))->lease.reset();
  EXPECT_EQ(PositionOf("a"), 1);
  EXPECT_EQ(Do(Next("a"), {2}), 12);
}

TEST_F(SessionStoreTest, AStartThatDoesNotCommitLeavesNothing) {
  Acquire(Start("a"))->lease.reset();
  ExpectRefused(Next("a"), kNotFound, "sessions/a");
  EXPECT_EQ(store_->statistics().bytes, 0);
}

TEST_F(SessionStoreTest, AStartReplacesOnceItCommits) {
  Do(Start("a"), {1, 2, 3});
  Acquire(Start("a"))->lease.reset();
  EXPECT_EQ(Do(Next("a"), {4}), 1234);
  EXPECT_EQ(Do(Start("a"), {5}), 5);
  EXPECT_EQ(PositionOf("a"), 1);
  EXPECT_EQ(store_->statistics().sessions, 1);
}

TEST_F(SessionStoreTest, AnEndEndsItOnceItCommits) {
  Do(Start("a"), {1});
  Acquire(Last(Next("a")))->lease.reset();
  EXPECT_EQ(Do(Last(Next("a")), {2}), 12);
  ExpectRefused(Next("a"), kNotFound);
  EXPECT_EQ(PositionOf("a"), -1);
  EXPECT_EQ(store_->statistics().bytes, 0);
}

TEST_F(SessionStoreTest, OneRequestMayBothStartAndEnd) {
  EXPECT_EQ(Do(Last(Start("a")), {1, 2}), 12);
  ExpectRefused(Next("a"), kNotFound);
  EXPECT_EQ(Do(Last(Start("a")), {3}), 3);
  EXPECT_EQ(store_->statistics().sessions, 0);
}

TEST_F(SessionStoreTest, RequestsWaitForTheirTurnInOrder) {
  const auto first = Acquire(Start("a"));
  const auto second = Acquire(Next("a"));
  const auto third = Acquire(Next("a"));
  EXPECT_FALSE(second->come);
  Run(first->lease, {1});
  first->lease->Commit(1);
  first->lease.reset();
  ASSERT_TRUE(second->come);
  EXPECT_FALSE(third->come);
  EXPECT_EQ(Run(second->lease, {2}), 12);
  second->lease->Commit(1);
  second->lease.reset();
  ASSERT_TRUE(third->come);
  EXPECT_EQ(Run(third->lease, {3}), 123);
  third->lease->Commit(1);
  third->lease.reset();
  EXPECT_EQ(PositionOf("a"), 3);
}

TEST_F(SessionStoreTest, ThoseBehindAStartThatFailsAreRefused) {
  const auto start = Acquire(Start("a"));
  const auto next = Acquire(Next("a"));
  const auto another = Acquire(Start("a"));
  start->lease.reset();
  ASSERT_TRUE(next->come);
  EXPECT_EQ(next->status.code(), kNotFound);
  ASSERT_TRUE(another->come);
  EXPECT_TRUE(another->status.ok());
  another->lease.reset();
}

TEST_F(SessionStoreTest, AStartReplacesABusySessionAfterWhatCameBefore) {
  Do(Start("a"), {1});
  const auto busy = Acquire(Next("a"));
  const auto start = Acquire(Start("a"));
  EXPECT_FALSE(start->come);
  EXPECT_EQ(Run(busy->lease, {2}), 12);
  busy->lease->Commit(1);
  busy->lease.reset();
  ASSERT_TRUE(start->come);
  EXPECT_EQ(Run(start->lease, {3}), 3);
  start->lease->Commit(1);
  start->lease.reset();
  EXPECT_EQ(PositionOf("a"), 1);
}

TEST_F(SessionStoreTest, AThousandTurnsThatAllFailNeedNoStack) {
  options_.max_waiting_per_session = 100000;
  options_.max_waiting = 100000;
  MakeStore();
  auto first = Acquire(Start("a"));
  int refused = 0;
  for (int i = 0; i < 100000; ++i) {
    store_->Acquire(Next("a"), [&](absl::StatusOr<Lease> lease) {
      refused += absl::IsNotFound(lease.status());
    });
  }
  first->lease.reset();
  EXPECT_EQ(refused, 100000);
}

// --- Positions ---

TEST_F(SessionStoreTest, ARepeatedRequestIsAnsweredAndNotAppliedTwice) {
  EXPECT_EQ(Do(At(Start("a"), 0, "x"), {1, 2}), 12);
  EXPECT_EQ(Do(At(Start("a"), 0, "x"), {1, 2}), 12);
  EXPECT_EQ(PositionOf("a"), 2);
  EXPECT_EQ(Do(At(Next("a"), 2, "y"), {3}), 123);
  EXPECT_EQ(Do(At(Next("a"), 2, "y"), {3}), 123);
  EXPECT_EQ(Do(At(Next("a"), 2, "y"), {3}), 123);
  EXPECT_EQ(PositionOf("a"), 3);
  EXPECT_EQ(Do(At(Next("a"), 3, "z"), {4}), 1234);
}

TEST_F(SessionStoreTest, ARepeatedRequestSaysThatItIsOne) {
  Do(At(Start("a"), 0, "x"), {1, 2});
  const auto again = Acquire(At(Start("a"), 0, "x"));
  EXPECT_TRUE(again->lease->replay());
  EXPECT_EQ(again->lease->position(), 0);
  EXPECT_EQ(again->lease->Commit(2), 2);
  again->lease.reset();
}

TEST_F(SessionStoreTest, AnyOtherPositionIsRefusedAndSaysWhereItIs) {
  Do(At(Start("a"), 0, "x"), {1, 2});
  Do(At(Next("a"), 2, "y"), {3});
  ExpectRefused(At(Next("a"), 0, "x"), kPrecondition, "at 3");
  ExpectRefused(At(Next("a"), 2, "other"), kPrecondition, "at 3");
  ExpectRefused(At(Last(Next("a")), 2, "y"), kPrecondition, "at 3");
  ExpectRefused(At(Next("a"), 4, "y"), kPrecondition, "at 3");
  ExpectRefused(At(Next("a"), -1, "y"), kInvalid, "-1");
  ExpectRefused(At(Start("a"), 3, "y"), kInvalid, "3");
  EXPECT_EQ(PositionOf("a"), 3);
}

TEST_F(SessionStoreTest, ARequestWithoutPositionIsAppliedEachTime) {
  Do(Start("a"), {1});
  EXPECT_EQ(Do(Next("a"), {2}), 12);
  EXPECT_EQ(Do(Next("a"), {2}), 122);
  ExpectRefused(At(Next("a"), 2, ""), kPrecondition, "at 3");
}

TEST_F(SessionStoreTest, AnEndCanBeRepeatedForAWhile) {
  Do(At(Start("a"), 0, "x"), {1});
  EXPECT_EQ(Do(At(Last(Next("a")), 1, "y"), {2}), 12);
  EXPECT_EQ(PositionOf("a"), -1);
  EXPECT_EQ(Do(At(Last(Next("a")), 1, "y"), {2}), 12);
  ExpectRefused(At(Last(Next("a")), 1, "z"), kNotFound);
  ExpectRefused(Next("a"), kNotFound);
  EXPECT_EQ(store_->statistics().sessions, 0);
  now_ += absl::Minutes(1);
  ExpectRefused(At(Last(Next("a")), 1, "y"), kNotFound);
  EXPECT_EQ(store_->statistics().bytes, 0);
}

TEST_F(SessionStoreTest, WhoseAnswerIsGoneIsToldThatItWasApplied) {
  Do(At(Start("a"), 0, "x"), {1});
  Do(At(Next("a"), 1, "y"), {2});
  const auto spoiled = Acquire(Next("a"));  // got as far as a pass
  spoiled->lease->state()->BeginWrite();
  spoiled->lease.reset();
  ExpectRefused(At(Next("a"), 1, "y"), kPrecondition, "was applied");
}

// --- Ends ---

TEST_F(SessionStoreTest, EndsWhenIdleForTooLong) {
  Do(Start("a"), {1});
  Do(Start("b"), {1});
  now_ += absl::Minutes(10) - absl::Nanoseconds(1);
  EXPECT_EQ(Do(Next("a"), {2}), 12);
  now_ += absl::Nanoseconds(1);
  ExpectRefused(Next("b"), kNotFound);
  EXPECT_EQ(Do(Next("a"), {3}), 123);
  EXPECT_EQ(store_->Get("a")->expire_time, now_ + absl::Minutes(10));
  now_ += absl::Minutes(10);
  store_->DoUpkeep();
  EXPECT_EQ(store_->statistics().sessions, 0);
  EXPECT_EQ(store_->statistics().expired, 2);
  EXPECT_EQ(store_->statistics().bytes, 0);
}

TEST_F(SessionStoreTest, DoesNotEndWhileARequestUsesIt) {
  Do(Start("a"), {1});
  const auto lease = Acquire(Next("a"));
  now_ += absl::Hours(1);
  store_->DoUpkeep();
  Run(lease->lease, {2});
  EXPECT_EQ(lease->lease->Commit(1), 2);
  lease->lease.reset();
  EXPECT_EQ(Do(Next("a"), {3}), 123);
}

TEST_F(SessionStoreTest, ASessionThatAFailedStartWouldHaveReplacedLivesOn) {
  Do(Start("a"), {1});
  const auto start = Acquire(Start("a"));
  now_ += absl::Hours(1);
  store_->DoUpkeep();
  start->lease.reset();
  EXPECT_EQ(Do(Next("a"), {2}), 12);
}

TEST_F(SessionStoreTest, DeletionIsAtOnceAndTheRequestUnderWayIsForNothing) {
  Do(Start("a"), {1});
  const auto busy = Acquire(Next("a"));
  const auto behind = Acquire(Next("a"));
  EXPECT_TRUE(store_->Delete("a").ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Delete("a")));
  EXPECT_TRUE(absl::IsNotFound(store_->Get("a").status()));
  EXPECT_TRUE(absl::IsAborted(store_->Create({"a", version_}).status()));
  EXPECT_EQ(Run(busy->lease, {2}), 12);
  EXPECT_EQ(busy->lease->Commit(1), 2);
  busy->lease.reset();
  ASSERT_TRUE(behind->come);
  EXPECT_EQ(behind->status.code(), kNotFound);
  EXPECT_EQ(store_->statistics().bytes, 0);
  EXPECT_EQ(Do(Start("a"), {3}), 3);
}

TEST_F(SessionStoreTest, AWaitingRequestThatNobodyWantsIsAnswered) {
  const auto busy = Acquire(Start("a"));
  auto cancelled = std::make_shared<std::atomic<bool>>(false);
  SessionUse use = Next("a");
  use.control.cancelled = cancelled;
  use.bytes = 100;
  const auto waiting = Acquire(use);
  const auto behind = Acquire(Next("a"));
  store_->DoUpkeep();
  EXPECT_FALSE(waiting->come);
  *cancelled = true;
  store_->DoUpkeep();
  ASSERT_TRUE(waiting->come);
  EXPECT_EQ(waiting->status.code(), kCancelled);
  EXPECT_EQ(store_->statistics().waiting, 1);
  Run(busy->lease, {1});
  busy->lease->Commit(1);
  busy->lease.reset();
  ASSERT_TRUE(behind->come);
  EXPECT_TRUE(behind->status.ok());
  behind->lease.reset();
}

TEST_F(SessionStoreTest, ADeadlineThatHasPassedIsSaidAtTheTurn) {
  SessionUse use = Start("a");
  use.control.deadline = absl::Now() - absl::Milliseconds(1);
  ExpectRefused(use, absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(store_->statistics().bytes, 0);
}

// --- Limits ---

TEST_F(SessionStoreTest, RefusesTooManyWaiting) {
  options_.max_waiting_per_session = 2;
  options_.max_waiting = 3;
  options_.max_waiting_bytes = 50;
  MakeStore();
  const auto a = Acquire(Start("a"));
  const auto b = Acquire(Start("b"));
  std::vector<std::shared_ptr<Answer>> waiting;
  waiting.push_back(Acquire(Next("a")));
  SessionUse large = Next("a");
  large.bytes = 51;
  ExpectRefused(large, kExhausted, "50 bytes");
  waiting.push_back(Acquire(Next("a")));
  ExpectRefused(Next("a"), kExhausted, "this session");
  waiting.push_back(Acquire(Next("b")));
  ExpectRefused(Next("b"), kExhausted, "3");
  a->lease.reset();
  b->lease.reset();
  EXPECT_EQ(store_->statistics().waiting, 0);
}

TEST_F(SessionStoreTest, RefusesTooManySessionsUntilOneEnds) {
  options_.limits.max_sessions = 2;
  MakeStore();
  Do(Start("a"), {1});
  now_ += absl::Minutes(5);
  Do(Start("b"), {1});
  ExpectRefused(Start("c"), kExhausted, "2 sessions");
  EXPECT_EQ(Do(Start("b"), {2}), 2);  // in its own place
  now_ += absl::Minutes(5);
  EXPECT_EQ(Do(Start("c"), {3}), 3);  // a has expired
  EXPECT_TRUE(
      absl::IsResourceExhausted(store_->Create({"d", version_}).status()));
  Do(At(Last(Next("c")), 1, "x"), {4});
  EXPECT_EQ(Do(Start("d"), {1}), 1);  // c is forgotten
}

TEST_F(SessionStoreTest, RefusesTooManyBytes) {
  const int64_t bytes = 2 * 2 * sizeof(float);
  options_.limits.max_bytes = 2 * bytes + 1;
  MakeStore();
  const auto first = Acquire(Start("a"));
  Do(Start("b"), {1});
  EXPECT_EQ(store_->statistics().bytes, 2 * bytes);
  ExpectRefused(Start("c"), kExhausted, absl::StrCat(bytes));
  first->lease.reset();
  EXPECT_EQ(Do(Start("c"), {1}), 1);
}

TEST_F(SessionStoreTest, RefusesWhatCanNeverBe) {
  ExpectRefused(Next(""), kInvalid, "id");
  ExpectRefused(Next(std::string(257, 'a')), kInvalid, "257");
  ExpectRefused(Next("a\n"), kNotFound, "a\\n");
  SessionUse use = Start("a");
  use.version = Version("models/two/versions/1", 2, "bidirectional: true");
  ExpectRefused(use, kPrecondition, "models/two/versions/1 is bidirectional");
  EXPECT_EQ(store_->Create({"a", use.version}).status().code(), kPrecondition);
}

TEST_F(SessionStoreTest, APositionThatNoSessionHasIsRefused) {
  Do(Start("a"), {1});
  for (const int64_t position : {int64_t{-1}, kMaxSessionRows + 1, kMostRows}) {
    ExpectRefused(At(Next("a"), position, "x"), kInvalid, "position");
    EXPECT_EQ(store_->Create({"b", version_, position}).status().code(),
              kInvalid);
  }
  ExpectRefused(At(Next("a"), kMaxSessionRows, "x"), kPrecondition, "at 1");
}

TEST_F(SessionStoreTest, GetsNoMoreRowsThanCanBeCounted) {
  ASSERT_TRUE(store_->Create({"a", version_, kMaxSessionRows - 2}).ok());
  const auto request = Acquire(Next("a"));
  EXPECT_TRUE(request->lease->CheckRows(2).ok());
  for (const int64_t rows : {int64_t{3}, kMostRows}) {
    EXPECT_EQ(request->lease->CheckRows(rows).code(), kPrecondition);
  }
}

// --- All of them ---

TEST_F(SessionStoreTest, CreatesInAKnownState) {
  const auto info = store_->Create({"a", version_, 3, {123, 0}});
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->position, 3);
  EXPECT_EQ(Do(At(Next("a"), 3, "x"), {4}), 1234);
  EXPECT_TRUE(absl::IsAlreadyExists(store_->Create({"a", version_}).status()));
}

TEST_F(SessionStoreTest, MovesToAnotherVersion) {
  Do(At(Start("a"), 0, "x"), {1});
  const ModelHandle other = Version("models/m/versions/2");
  const auto lease = Acquire(Next("a"));
  lease->lease->Move(other);
  lease->lease.reset();
  EXPECT_EQ(store_->Get("a")->version, other);
  EXPECT_EQ(store_->CountOn(*version_), 0);
  EXPECT_EQ(store_->CountOn(*other), 1);
  // Its answer was another version's.
  ExpectRefused(At(Next("a"), 0, "x"), kPrecondition, "at 1");
  EXPECT_EQ(Do(Next("a"), {2}), 12);
}

TEST_F(SessionStoreTest, TakesAnotherStateInItsPlace) {
  Do(Start("a"), {1});
  const auto lease = Acquire(At(Next("a"), 1, "x"));
  const auto state = CarriedState::Create({77, 0}, CarriedState::Kind::kPooled);
  EXPECT_EQ(lease->lease->CommitState(state, 5), 6);
  lease->lease.reset();
  ExpectRefused(At(Next("a"), 1, "x"), kPrecondition, "at 6");
  EXPECT_EQ(Do(Next("a"), {8}), 778);
}

TEST_F(SessionStoreTest, ListsByIdFromAPlaceOn) {
  const ModelHandle other = Version("models/n/versions/1");
  for (const char* id : {"c", "a", "d", "b"}) Do(Start(id), {1});
  SessionUse use = Start("aa");
  use.version = other;
  Do(use, {1});
  Do(At(Last(Next("b")), 1, "x"), {1});
  const auto ids = [&](const std::string& after, int64_t limit, auto wanted) {
    std::string all;
    for (const auto& info : store_->List(after, limit, wanted)) {
      absl::StrAppend(&all, info.id, " ");
    }
    return all;
  };
  const auto any = [](const ModelVersion&) { return true; };
  EXPECT_EQ(ids("", 10, any), "a aa c d ");
  EXPECT_EQ(ids("", 2, any), "a aa ");
  EXPECT_EQ(ids("aa", 2, any), "c d ");
  EXPECT_EQ(ids("", 10, [&](const auto& v) { return &v == other.get(); }),
            "aa ");
  EXPECT_EQ(store_->CountOn(*other), 1);
}

}  // namespace
}  // namespace recurve
