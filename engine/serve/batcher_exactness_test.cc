// What a sequence comes to does not depend on what it was batched with, how it
// was cut, where its state was, or what went wrong on the way.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "engine/serve/batcher.h"
#include "engine/serve/batcher_test_util.h"
#include "engine/serve/state_pool.h"
#include "engine/serve/test_models.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using Kind = CarriedState::Kind;

// Large beside its states.
constexpr char kManyTokens[] = R"(
  input { token_embedding { vocabulary_size: 6000 embedding_size: 9 } }
  blocks { sru { hidden_size: 12 } }
  output { linear { size: 7 } }
  loss { kind: CROSS_ENTROPY })";

// A client with one live sequence: sends it in pieces of any length, each when
// the one before is answered; has pieces cancelled, and sends them again; asks
// for answers once more.
class Client {
 public:
  Client(Fixture& fixture, Reference& reference, uint32_t seed)
      : fixture_(fixture), reference_(reference), random_(seed) {
    const Model& model = reference_.model();
    batch_ = RandomBatch(model, {1 + UpTo(60)}, seed);
    want_ = reference_.Outputs(batch_);
    state_ = CarriedState::Create(model.carry_size(), Kind::kPooled);
    flow_ = absl::StrCat(UpTo(3));
  }

  void Start() { Next(); }
  void Wait() { finished_.WaitForNotification(); }
  // From now on takes so many bytes of the device that has just run it, now and
  // then, and gives them back at once: all that its model leaves.
  void Squeeze(int64_t bytes) { squeezed_bytes_ = bytes; }
  int times_spilled() const { return times_spilled_; }

 private:
  int64_t UpTo(int64_t most) { return random_() % (most + 1); }

  void Next() {
    if (row_ == batch_.num_rows()) return finished_.Notify();
    end_ = std::min(batch_.num_rows(), row_ + 1 + UpTo(20));
    Send(/*replay=*/false);
  }

  void Send(bool replay) {
    const Model& model = reference_.model();
    BatcherRequest request;
    request.version = reference_.version();
    request.batch = Rows(model, batch_, row_, end_);
    request.states = {state_};
    request.replay = replay;
    request.priority = 1 + static_cast<int>(UpTo(2));
    request.flow = flow_;
    cancelled_ = std::make_shared<std::atomic<bool>>(false);
    request.control.cancelled = cancelled_;
    cancels_ = UpTo(5) == 0;
    got_.assign(model.pools() ? model.output_size()
                              : (end_ - row_) * model.output_size(),
                -1);
    request.consume = [this](const ChunkRows& rows) {
      std::copy(rows.output.data,
                rows.output.data + rows.output.rows * rows.output.cols,
                got_.begin() + rows.first_output_row * rows.output.cols);
      if (cancels_) *cancelled_ = true;
      return absl::OkStatus();
    };
    request.done = [this, replay](const absl::Status& status) {
      Done(replay, status);
    };
    fixture_.batcher.Enqueue(std::move(request));
  }

  void Done(bool replay, const absl::Status& status) {
    if (squeezed_bytes_ > 0 && UpTo(2) == 0) SqueezeDevice();
    if (absl::IsCancelled(status)) return Send(replay && state_->can_replay());
    ASSERT_TRUE(status.ok()) << status;
    Check();
    if (!replay && UpTo(3) == 0) {
      EXPECT_TRUE(state_->can_replay());
      return Send(/*replay=*/true);
    }
    row_ = end_;
    Next();
  }

  // That of the thread. Whichever sees that a request is cancelled says so: the
  // state may be on another, and the batcher's own is none's.
  void SqueezeDevice() {
    for (int rank = 0; rank < fixture_.devices.size(); ++rank) {
      DeviceWorker& device = fixture_.devices.device(rank);
      if (!device.OnThread()) continue;
      MemoryPlan plan;
      plan.gradients = squeezed_bytes_;
      times_spilled_ += state_->device() == rank;
      const auto held = device.ledger().TryReserve("jobs/x", plan);
      EXPECT_TRUE(held.ok()) << held.status();
      EXPECT_NE(state_->device(), rank);
    }
  }

  // Of a model that pools the value so far, which only the end says.
  void Check() {
    const Model& model = reference_.model();
    std::vector<float> want = want_;
    if (model.pools()) {
      want = reference_outputs_up_to(end_);
    } else {
      const int64_t columns = model.output_size();
      want.assign(want_.begin() + row_ * columns,
                  want_.begin() + end_ * columns);
    }
    EXPECT_EQ(got_, want) << "rows " << row_ << " to " << end_ << " of "
                          << batch_.num_rows();
  }
  std::vector<float> reference_outputs_up_to(int64_t end) {
    static absl::Mutex mutex;  // the executor is for one thread
    absl::MutexLock lock(&mutex);
    return reference_.Outputs(Rows(reference_.model(), batch_, 0, end));
  }

  Fixture& fixture_;
  Reference& reference_;
  std::mt19937 random_;
  SequenceBatch batch_;
  std::vector<float> want_, got_;
  std::shared_ptr<CarriedState> state_;
  std::string flow_;
  std::shared_ptr<std::atomic<bool>> cancelled_;
  bool cancels_ = false;
  int64_t squeezed_bytes_ = 0;
  int times_spilled_ = 0;
  int64_t row_ = 0, end_ = 0;  // of the piece under way
  absl::Notification finished_;
};

TEST(BatcherExactnessTest, LiveSequencesHaveTheBitsOfALonePass) {
  for (const char* config : {kSru, kQrnn, kForgetful, kMean, kMax, kLast}) {
    Reference reference(config);
    uint32_t seed = 0;
    for (const char* specs : {"cpu:1", "cpu:1,cpu:2", "cpu:1,cpu:1,cpu:1"}) {
      for (const int64_t rows : {1, 5, 64}) {
        SCOPED_TRACE(testing::Message() << config << specs << " " << rows);
        Fixture fixture(specs, Options(rows, std::min<int64_t>(rows, 7)));
        std::vector<std::unique_ptr<Client>> clients;
        for (int i = 0; i < 12; ++i) {
          clients.push_back(
              std::make_unique<Client>(fixture, reference, ++seed));
        }
        for (const auto& client : clients) client->Start();
        for (const auto& client : clients) client->Wait();
      }
    }
  }
}

// Each spilling sends the states of all clients there through host memory, and
// from there to whichever device comes first.
TEST(BatcherExactnessTest, PressureOnMemoryChangesNoBit) {
  for (const char* config : {kSru, kForgetful, kMax}) {
    Reference reference(config);
    uint32_t seed = 1000;
    for (const int devices : {1, 2, 3}) {
      for (const int64_t rows : {1, 64}) {
        SCOPED_TRACE(testing::Message() << config << devices << " " << rows);
        const int64_t model_bytes = BytesOf(reference.model(), rows);
        const int64_t others_bytes =
            model_bytes + 2 * StateBlock::Bytes(reference.model().carry_size());
        const std::vector<std::string> specs(devices,
                                             Room(model_bytes + others_bytes));
        Fixture fixture(absl::StrJoin(specs, ","),
                        Options(rows, std::min<int64_t>(rows, 7)));
        std::vector<std::unique_ptr<Client>> clients;
        for (int i = 0; i < 12; ++i) {
          clients.push_back(
              std::make_unique<Client>(fixture, reference, ++seed));
          clients.back()->Squeeze(others_bytes);
        }
        for (const auto& client : clients) client->Start();
        int spilled = 0;
        for (const auto& client : clients) {
          client->Wait();
          spilled += client->times_spilled();
        }
        EXPECT_GT(spilled, 0);
      }
    }
  }
}

// Keeps the order of what is enqueued on a device: it goes no further than here
// until it is opened.
class Barrier {
 public:
  explicit Barrier(DeviceWorker& device) {
    device.Enqueue(TaskClass::kServing, [this](Backend&) {
      open_.WaitForNotification();
      passed_.Notify();
    });
  }
  ~Barrier() { passed_.WaitForNotification(); }
  void Open() { open_.Notify(); }

 private:
  absl::Notification open_, passed_;
};

TEST(BatcherExactnessTest, StatesMoveFromABusyDeviceToAnIdleOne) {
  Reference reference(kSru);
  constexpr int kClients = 16;
  absl::Mutex mutex;
  int answers = 0;
  Fixture fixture("cpu:1,cpu:1", Options(4));
  std::vector<SequenceBatch> batches;
  std::vector<std::shared_ptr<CarriedState>> states;
  std::vector<std::unique_ptr<Answer>> firsts, seconds;
  const auto send = [&](int i, int64_t begin, Answer& answer) {
    BatcherRequest request =
        Request(reference.version(),
                Rows(reference.model(), batches[i], begin, begin + 4), answer);
    request.states = {states[i]};
    request.done = [&, done = request.done](const absl::Status& status) {
      {
        absl::MutexLock lock(&mutex);
        ++answers;
      }
      done(status);
    };
    fixture.batcher.Enqueue(std::move(request));
  };
  {
    Gate gate(fixture.devices.device(1));
    for (int i = 0; i < kClients; ++i) {
      batches.push_back(RandomBatch(reference.model(), {8}, i));
      states.push_back(
          CarriedState::Create(reference.model().carry_size(), Kind::kPooled));
      firsts.push_back(std::make_unique<Answer>());
      send(i, 0, *firsts.back());
      ASSERT_TRUE(firsts.back()->Wait().ok());
      EXPECT_EQ(states[i]->device(), 0);
    }
  }
  // Of the first device's passes only one comes before the spilling.
  Barrier passes(fixture.devices.device(0));
  for (int i = 0; i < kClients; ++i) {
    seconds.push_back(std::make_unique<Answer>());
    send(i, 4, *seconds.back());
  }
  fixture.batcher.Poll();
  Barrier rest(fixture.devices.device(0));
  answers = 0;
  passes.Open();
  {
    absl::MutexLock lock(&mutex);
    mutex.Await(absl::Condition(
        +[](int* answers) { return *answers >= kClients / 2; }, &answers));
  }
  EXPECT_GE(
      std::count_if(states.begin(), states.end(),
                    [](const auto& state) { return state->device() == 1; }),
      kClients / 2 - 1);
  rest.Open();
  for (int i = 0; i < kClients; ++i) {
    ASSERT_TRUE(seconds[i]->Wait().ok()) << seconds[i]->status;
    std::vector<float> all = firsts[i]->outputs;
    all.insert(all.end(), seconds[i]->outputs.begin(),
               seconds[i]->outputs.end());
    EXPECT_EQ(all, reference.Outputs(batches[i]));
  }
}

// As that of a version that is smaller may be.
TEST(BatcherExactnessTest, AStateComesFromADeviceThatHasNoRoomForTheModel) {
  Reference reference(kManyTokens);
  const int64_t block = StateBlock::Bytes(reference.model().carry_size());
  Fixture fixture(absl::StrCat(Room(2 * block), ",cpu:1"));
  ASSERT_GT(BytesOf(reference.model(), 1), 2 * block);
  const auto state =
      CarriedState::Create(reference.model().carry_size(), Kind::kPooled);
  absl::Notification placed;
  StatePool pool(fixture.devices.device(0), 0);
  fixture.devices.device(0).Enqueue(TaskClass::kServing, [&](Backend& backend) {
    EXPECT_TRUE(*pool.Place(*state, backend));
    placed.Notify();
  });
  placed.WaitForNotification();
  Answer answer;
  const SequenceBatch batch = RandomBatch(reference.model(), {5}, 1);
  BatcherRequest request = Request(reference.version(), batch, answer);
  request.states = {state};
  fixture.batcher.Enqueue(std::move(request));
  ASSERT_TRUE(answer.Wait().ok()) << answer.status;
  EXPECT_EQ(answer.outputs, reference.Outputs(batch));
  EXPECT_EQ(state->device(), 1);
}

TEST(BatcherExactnessTest, BatchesOfWholeSequencesHaveTheBitsOfLonePasses) {
  for (const char* config :
       {kSru, kQrnn, kForgetful, kMean, kMax, kLast, kBidirectional}) {
    Reference reference(config);
    std::mt19937 random(1);
    for (const char* specs : {"cpu:1", "cpu:1,cpu:1,cpu:1"}) {
      for (const int64_t rows : {1, 6, 50}) {
        SCOPED_TRACE(testing::Message() << config << specs << " " << rows);
        std::vector<SequenceBatch> batches;
        std::vector<std::unique_ptr<Answer>> answers;
        Fixture fixture(specs, Options(rows, 4));
        for (uint32_t i = 0; i < 10; ++i) {
          std::vector<int64_t> lengths(1 + random() % 6);
          for (int64_t& length : lengths) length = 1 + random() % 40;
          batches.push_back(RandomBatch(reference.model(), lengths, i));
          answers.push_back(std::make_unique<Answer>());
          BatcherRequest request =
              Request(reference.version(), batches.back(), *answers.back());
          request.priority = 1 + static_cast<int>(random() % 3);
          fixture.batcher.Enqueue(std::move(request));
        }
        for (size_t i = 0; i < batches.size(); ++i) {
          ASSERT_TRUE(answers[i]->Wait().ok()) << answers[i]->status;
          EXPECT_EQ(answers[i]->outputs, reference.Outputs(batches[i]));
        }
      }
    }
  }
}

TEST(BatcherExactnessTest, PaddingChangesNoBitOfTheRealRows) {
  Reference reference(kSru);
  Batcher::Options options = Options(64);
  options.pad_to_longest = true;
  Fixture fixture("cpu:1", options);
  const SequenceBatch batch =
      RandomBatch(reference.model(), {3, 20, 1, 9, 64}, 1);
  Answer answer, refused;
  fixture.batcher.Enqueue(Request(reference.version(), batch, answer));
  ASSERT_TRUE(answer.Wait().ok()) << answer.status;
  EXPECT_EQ(answer.outputs, reference.Outputs(batch));
  BatcherRequest request = Request(
      reference.version(), RandomBatch(reference.model(), {2}, 1), refused);
  request.states = {
      CarriedState::Create(reference.model().carry_size(), Kind::kHostOnly)};
  fixture.batcher.Enqueue(std::move(request));
  EXPECT_EQ(refused.Wait().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(BatcherExactnessTest, OneRequestsErrorIsNotItsNeighbours) {
  Reference reference(kSru);
  Fixture fixture("cpu:1", Options(64));
  const SequenceBatch batch = RandomBatch(reference.model(), {5, 3}, 1);
  Answer good, bad;
  BatcherRequest failing = Request(reference.version(), batch, bad);
  failing.consume = [](const ChunkRows&) {
    return absl::FailedPreconditionError("not these");
  };
  const auto state =
      CarriedState::Create(reference.model().carry_size(), Kind::kHostOnly);
  failing.batch = RandomBatch(reference.model(), {5}, 1);
  failing.states = {state};
  {
    Gate gate(fixture.devices.device(0));
    fixture.batcher.Enqueue(std::move(failing));
    fixture.batcher.Enqueue(Request(reference.version(), batch, good));
  }
  EXPECT_EQ(bad.Wait().message(), "not these");
  EXPECT_TRUE(good.Wait().ok());
  EXPECT_EQ(good.outputs, reference.Outputs(batch));
  EXPECT_EQ(Read(*state), CarriedState::Values(reference.model().carry_size()));
  EXPECT_FALSE(state->can_replay());
  EXPECT_EQ(fixture.batcher.statistics().SnapshotOf("m").passes, 1);
}

TEST(BatcherExactnessTest, ADeadlineBetweenPassesLeavesTheStateAsItWas) {
  Reference reference(kForgetful);
  const Model& model = reference.model();
  Clock clock;
  Batcher::Options options = Options(8);
  options.now = clock.now();
  Fixture fixture("cpu:1", options);
  const SequenceBatch batch = RandomBatch(model, {40}, 1);
  const auto state = CarriedState::Create(model.carry_size(), Kind::kPooled);
  Answer first, expired, second;
  BatcherRequest request =
      Request(reference.version(), Rows(model, batch, 0, 10), first);
  request.states = {state};
  fixture.batcher.Enqueue(request);
  ASSERT_TRUE(first.Wait().ok());
  const CarriedState::Values before = Read(*state);

  request = Request(reference.version(), Rows(model, batch, 10, 40), expired);
  request.states = {state};
  request.control.deadline = clock.Now() + absl::Seconds(1);
  int passes = 0;
  request.consume = [&](const ChunkRows&) {
    if (++passes == 2) clock.Pass(absl::Seconds(2));
    return absl::OkStatus();
  };
  fixture.batcher.Enqueue(request);
  EXPECT_EQ(expired.Wait().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(passes, 2);
  EXPECT_EQ(Read(*state), before);

  request = Request(reference.version(), Rows(model, batch, 10, 40), second);
  request.states = {state};
  fixture.batcher.Enqueue(request);
  ASSERT_TRUE(second.Wait().ok());
  std::vector<float> all = first.outputs;
  all.insert(all.end(), second.outputs.begin(), second.outputs.end());
  EXPECT_EQ(all, reference.Outputs(batch));
}

}  // namespace
}  // namespace recurve
