// A session is a row of inputs: whatever happens to requests on it, its state
// and its outputs are those of an uninterrupted run over what was applied.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "engine/model/executor_test_util.h"
#include "engine/schedule/device_spec.h"
#include "engine/serve/session_files.h"
#include "engine/serve/session_operations.h"
#include "engine/serve/session_predictor.h"
#include "engine/serve/test_models.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using Tokens = std::vector<int32_t>;

SequenceBatch BatchOf(const Tokens& tokens) {
  return {{0, static_cast<int64_t>(tokens.size())}, tokens, {}};
}

// A carry of the mean has doubles in it, which are no floats.
void ExpectSameBits(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), sizeof(float) * a.size()), 0);
}

// What a session must be.
struct Expected {
  std::vector<float> carry;
  int version = 0;
  int64_t position = 0;
  absl::Time last_use;
};

struct Made {  // a request, and what came of it
  std::string id;
  Tokens tokens;
  bool start = false;
  bool end = false;
  std::shared_ptr<std::atomic<bool>> cancelled =
      std::make_shared<std::atomic<bool>>(false);
  std::optional<int64_t> position;
  absl::StatusOr<SessionPrediction> result = absl::UnknownError("none");
};

class World {
 public:
  World(const char* config, uint32_t seed)
      : random_(seed),
        reference_(config),
        devices_(*ParseDevices("cpu:1,cpu:1")),
        runner_(devices_, BatchRunner::Options()),
        batcher_(runner_, BatcherOptions()),
        predictor_(batcher_, Predictor::Options()),
        directory_(absl::StrCat(testing::TempDir(), "/sessions-", seed)) {
    for (int i = 0; i < 2; ++i) {
      weights_.push_back(reference_.parameters());
      for (float& weight : weights_.back()) weight *= 1 + 0.1f * float(i);
      versions_.push_back(ModelVersion::InMemory(
          *Model::Create(reference_.model().config()), weights_.back(),
          absl::StrCat("models/m/versions/", i + 1)));
    }
    Open();
  }

  void Step() {
    switch (Draw(12)) {
      case 0:
        return Fork();
      case 1:
        return RestoreSnapshot();
      case 2:
        return Move();
      case 3:
        return Delete();
      case 4:
        return Wait();
      case 5:
        return Draw(4) == 0 ? Restart() : Burst();
      case 6:
        return Burst();
      default:
        return One();
    }
  }

  // Every session is where it must be, to the bit.
  void Check() {
    const auto any = [](const ModelVersion&) { return true; };
    std::vector<std::string> live;
    for (const SessionInfo& info : store_->List("", 100, any)) {
      if (info.expire_time > now_) live.push_back(info.id);
    }
    std::vector<std::string> want;
    for (const auto& [id, expected] : expected_) want.push_back(id);
    EXPECT_EQ(live, want);
    for (const auto& [id, expected] : expected_) {
      const SessionSnapshot snapshot = Snapshot(id);
      EXPECT_EQ(snapshot.position, expected.position) << id;
      ExpectSameBits(snapshot.carry, expected.carry);
      EXPECT_EQ(snapshot.model_version, versions_[expected.version]->name);
      expected_[id].last_use = now_;
    }
  }

 private:
  static Batcher::Options BatcherOptions() {
    Batcher::Options options;
    options.max_batch_rows = 3;
    options.max_chunk_rows = 2;
    return options;
  }

  void Open() {
    SessionStore::Options options;
    options.limits.max_sessions = 8;
    options.clock = [this] { return now_; };
    store_ = std::make_unique<SessionStore>(std::move(options));
    sessions_ = std::make_unique<SessionPredictor>(*store_, predictor_);
  }

  int Draw(int below) {
    return std::uniform_int_distribution<int>(0, below - 1)(random_);
  }
  std::string DrawId() { return absl::StrCat("s", Draw(4)); }
  Expected* Find(const std::string& id) {
    const auto found = expected_.find(id);
    return found == expected_.end() ? nullptr : &found->second;
  }

  // --- Requests ---

  Made DrawRequest(const std::string& id, int max_rows = 7) {
    Made made;
    made.id = id;
    const Expected* expected = Find(id);
    made.start = expected == nullptr || Draw(8) == 0;
    made.end = Draw(10) == 0;
    for (int n = 1 + Draw(max_rows); n > 0; --n)
      made.tokens.push_back(Draw(17));
    if (Draw(2) == 0) {
      made.position = made.start ? 0 : expected->position;
    }
    return made;
  }

  void Run(Made& made, std::function<void()> done, bool expired = false) {
    SessionPredictRequest request;
    request.use.id = made.id;
    request.use.start = made.start;
    if (made.start) request.use.version = versions_[0];
    request.use.end = made.end;
    request.use.position = made.position;
    request.predict.batch = BatchOf(made.tokens);
    request.predict.selection.logits = true;
    request.predict.control.cancelled = made.cancelled;
    if (expired) request.predict.control.deadline = absl::UnixEpoch();
    sessions_->Predict(std::move(request),
                       [&made, done = std::move(done)](
                           absl::StatusOr<SessionPrediction> result) {
                         made.result = std::move(result);
                         done();
                       });
  }

  void RunAndWait(Made& made, bool expired = false) {
    absl::Notification done;
    Run(
        made, [&] { done.Notify(); }, expired);
    done.WaitForNotification();
  }

  void One() {
    const std::string id = DrawId();
    Made made = DrawRequest(id);
    Expected* const expected = Find(id);
    const int fault = Draw(8);
    if (fault == 0) made.tokens.back() = 17;  // not in the vocabulary
    if (fault == 1) *made.cancelled = true;
    RunAndWait(made, /*expired=*/fault == 2);
    if (fault <= 2) {
      EXPECT_FALSE(made.result.ok());
      // It had its turn, and so has used the session.
      if (fault == 0 && expected != nullptr) expected->last_use = now_;
      return;
    }
    Applied(made);
    if (Draw(2) == 0 && made.position) Again(made);
  }

  // The same once more: the same answer, applied once.
  void Again(const Made& made) {
    Made again = made;
    RunAndWait(again);
    ASSERT_TRUE(again.result.ok()) << again.result.status();
    EXPECT_EQ(again.result->prediction.logits, made.result->prediction.logits);
    EXPECT_EQ(again.result->position, made.result->position);
    if (Expected* expected = Find(made.id)) expected->last_use = now_;
  }

  // Several at once on one session, some cancelled under way.
  void Burst() {
    const std::string id = DrawId();
    std::vector<Made> all(2 + Draw(4));
    for (Made& made : all) {
      made = DrawRequest(id, /*max_rows=*/200);  // many passes
      made.position.reset();
      made.end = false;
      made.start = &made == &all[0] && made.start;
    }
    absl::BlockingCounter left(static_cast<int>(all.size()));
    for (Made& made : all) Run(made, [&] { left.DecrementCount(); });
    for (Made& made : all) {
      if (Draw(3) == 0) *made.cancelled = true;
      if (Draw(3) == 0) *made.cancelled = true;
    }
    left.Wait();
    for (Made& made : all) {
      if (made.result.ok()) {
        Applied(made);
      } else if (Find(id) != nullptr) {
        expected_[id].last_use = now_;
      }
    }
  }

  // Checks the answer and brings what is expected up to date.
  void Applied(const Made& made) {
    ASSERT_TRUE(made.result.ok()) << made.result.status();
    Expected next;
    if (Expected* expected = Find(made.id); expected && !made.start) {
      next = *expected;
    } else {
      ASSERT_TRUE(made.start);
      next.carry.assign(reference_.model().carry_size(), 0);
    }
    EXPECT_EQ(made.result->prediction.logits, Offline(next, made.tokens));
    next.position += static_cast<int64_t>(made.tokens.size());
    next.last_use = now_;
    EXPECT_EQ(made.result->position, next.position);
    if (made.end) {
      expected_.erase(made.id);
    } else {
      expected_[made.id] = std::move(next);
    }
  }

  // The outputs of one pass from `expected`'s carry, which moves on.
  std::vector<float> Offline(Expected& expected, const Tokens& tokens) {
    reference_.SetParameters(weights_[expected.version]);
    const SequenceBatch batch = BatchOf(tokens);
    ForwardArgs args;
    args.batch = &batch;
    args.state = expected.carry;
    const ForwardResult result = reference_.Forward(args);
    expected.carry = reference_.ToHost(result.state);
    return reference_.ToHost(result.output);
  }

  // --- Whole states ---

  SessionSnapshot Snapshot(const std::string& id) {
    absl::StatusOr<SessionSnapshot> snapshot;
    absl::Notification done;
    SnapshotSession(*store_, id, {}, [&](auto given) {
      snapshot = std::move(given);
      done.Notify();
    });
    done.WaitForNotification();
    EXPECT_TRUE(snapshot.ok()) << snapshot.status();
    return snapshot.value_or(SessionSnapshot());
  }

  // What a copy under `id` must be, if it may be made.
  void Copied(const std::string& id, const Expected& of,
              const absl::Status& status) {
    EXPECT_EQ(status.ok(), Find(id) == nullptr) << status;
    if (!status.ok()) return;
    expected_[id] = of;
    expected_[id].last_use = now_;
  }

  void Fork() {
    const std::string id = DrawId(), copy = DrawId();
    if (Find(id) == nullptr) return;
    absl::StatusOr<SessionInfo> info;
    absl::Notification done;
    ForkSession(*store_, id, copy, {}, [&](auto given) {
      info = std::move(given);
      done.Notify();
    });
    done.WaitForNotification();
    expected_[id].last_use = now_;
    Copied(copy, expected_[id], info.status());
  }

  void RestoreSnapshot() {
    const std::string id = DrawId(), copy = DrawId();
    if (Find(id) == nullptr) return;
    const std::string bytes = SerializeSnapshot(Snapshot(id));
    expected_[id].last_use = now_;
    Copied(copy, expected_[id],
           RestoreSession(*store_, copy, versions_[expected_[id].version],
                          *ParseSnapshot(bytes))
               .status());
  }

  void Move() {
    const std::string id = DrawId();
    if (Find(id) == nullptr) return;
    const int to = Draw(2);
    absl::Notification done;
    MoveSession(*store_, id, versions_[to], {}, [&](const auto& info) {
      EXPECT_TRUE(info.ok()) << info.status();
      done.Notify();
    });
    done.WaitForNotification();
    expected_[id].version = to;
    expected_[id].last_use = now_;
  }

  void Delete() {
    const std::string id = DrawId();
    EXPECT_EQ(store_->Delete(id).ok(), Find(id) != nullptr);
    expected_.erase(id);
  }

  void Wait() {
    now_ += absl::Minutes(1 + Draw(6));
    if (Draw(2) == 0) store_->DoUpkeep();
    for (auto at = expected_.begin(); at != expected_.end();) {
      const bool over = at->second.last_use + absl::Minutes(10) <= now_;
      at = over ? expected_.erase(at) : std::next(at);
    }
  }

  void Restart() {
    ASSERT_TRUE(SaveSessions(*store_, directory_).ok());
    now_ += absl::Hours(1);
    Open();
    const auto restored = RestoreSessions(
        directory_,
        [this](const std::string& name) -> absl::StatusOr<ModelHandle> {
          return versions_[name == versions_[0]->name ? 0 : 1];
        },
        *store_);
    ASSERT_TRUE(restored.ok()) << restored.status();
    EXPECT_TRUE(restored->lost.empty());
    for (auto& [id, expected] : expected_) expected.last_use = now_;
  }

  std::mt19937 random_;
  absl::Time now_ = absl::UnixEpoch() + absl::Hours(1000);
  TestExecutor reference_;
  std::vector<std::vector<float>> weights_;
  std::vector<ModelHandle> versions_;
  DevicePool devices_;
  BatchRunner runner_;
  Batcher batcher_;
  Predictor predictor_;
  const std::string directory_;
  std::unique_ptr<SessionStore> store_;
  std::unique_ptr<SessionPredictor> sessions_;
  std::map<std::string, Expected> expected_;
};

TEST(SessionHistory, EveryStateIsThatOfWhatWasApplied) {
  uint32_t seed = 0;
  for (const char* config : {kSru, kForgetful, kMean, kMax}) {
    for (int round = 0; round < 6; ++round) {
      SCOPED_TRACE(testing::Message() << config << " seed " << ++seed);
      World world(config, seed);
      for (int step = 0; step < 60; ++step) {
        world.Step();
        if (step % 5 == 4) world.Check();
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace recurve
