#include "engine/serve/batcher.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "engine/model/executor_test_util.h"
#include "engine/schedule/device_spec.h"
#include "engine/schedule/memory_plan.h"
#include "engine/serve/retry_hint.h"
#include "engine/serve/state_pool.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = CarriedState::Kind;

constexpr char kSru[] = R"(
  input { token_embedding { vocabulary_size: 17 embedding_size: 9 } }
  blocks { sru { hidden_size: 12 num_layers: 2 layer_norm: true } }
  output { linear { size: 7 } }
  loss { kind: CROSS_ENTROPY })";

// Large beside its states.
constexpr char kManyTokens[] = R"(
  input { token_embedding { vocabulary_size: 6000 embedding_size: 9 } }
  blocks { sru { hidden_size: 12 } }
  output { linear { size: 7 } }
  loss { kind: CROSS_ENTROPY })";

// A chunk must not forget what a new call would.
constexpr char kForgetful[] = R"(
  input { features { size: 4 } }
  blocks { qrnn { hidden_size: 10 layers { window: 2 } layers { window: 2 } } }
  output { linear { size: 3 } }
  loss { kind: CROSS_ENTROPY })";

constexpr char kMean[] = R"(
  input { token_embedding { vocabulary_size: 17 embedding_size: 9 } }
  blocks { sru { hidden_size: 12 } }
  output { pooling: POOLING_MEAN linear { size: 3 } }
  loss { kind: CROSS_ENTROPY })";

constexpr char kMax[] = R"(
  input { token_embedding { vocabulary_size: 17 embedding_size: 9 } }
  blocks { qrnn { hidden_size: 12 window: 2 } }
  output { pooling: POOLING_MAX linear { size: 3 } }
  loss { kind: CROSS_ENTROPY })";

constexpr char kLast[] = R"(
  input { token_embedding { vocabulary_size: 17 embedding_size: 9 } }
  blocks { sru { hidden_size: 12 } }
  output { pooling: POOLING_LAST linear { size: 3 } }
  loss { kind: CROSS_ENTROPY })";

constexpr char kBidirectional[] = R"(
  input { token_embedding { vocabulary_size: 17 embedding_size: 9 } }
  blocks { sru { hidden_size: 6 bidirectional: true } }
  output { linear { size: 3 } }
  loss { kind: CROSS_ENTROPY })";

// A version, and its outputs by lone passes over whole sequences.
class Reference {
 public:
  explicit Reference(const char* config, const std::string& name = "m")
      : executor_(config),
        version_(
            ModelVersion::InMemory(*Model::Create(executor_.model().config()),
                                   executor_.parameters(), name)) {}

  const ModelHandle& version() const { return version_; }
  const Model& model() const { return executor_.model(); }
  std::vector<float> Outputs(const SequenceBatch& batch) {
    ForwardArgs args;
    args.batch = &batch;
    return executor_.Output(args);
  }

 private:
  TestExecutor executor_;
  ModelHandle version_;
};

// Rows [begin, end) of a batch of one sequence.
SequenceBatch Rows(const Model& model, const SequenceBatch& batch,
                   int64_t begin, int64_t end) {
  SequenceBatch rows;
  rows.cu_seqlens = {0, end - begin};
  if (model.takes_tokens()) {
    rows.tokens.assign(batch.tokens.begin() + begin,
                       batch.tokens.begin() + end);
  } else {
    const int64_t size = model.feature_size();
    rows.features.assign(batch.features.begin() + begin * size,
                         batch.features.begin() + end * size);
  }
  return rows;
}

Batcher::Options Options(int64_t max_batch_rows,
                         int64_t max_chunk_rows = 1024) {
  Batcher::Options options;
  options.max_batch_rows = max_batch_rows;
  options.max_chunk_rows = max_chunk_rows;
  return options;
}

// Keeps a device busy until it is opened.
class Gate {
 public:
  explicit Gate(DeviceWorker& device) {
    device.Enqueue(TaskClass::kServing, [this](Backend&) {
      closed_.Notify();
      open_.WaitForNotification();
      passed_.Notify();
    });
    closed_.WaitForNotification();
  }
  ~Gate() { Open(); }
  void Open() {
    if (passed_.HasBeenNotified()) return;
    open_.Notify();
    passed_.WaitForNotification();
  }

 private:
  absl::Notification closed_, open_, passed_;
};

// A device with so many bytes beside its workspace.
std::string Room(int64_t bytes) {
  return absl::StrCat("cpu:1:memory=", WorkspacePlan(1).total() + bytes);
}

// Of a model that is ready for passes of so many rows.
int64_t BytesOf(const Model& model, int64_t rows) {
  return InferencePlan(model, {rows, rows}).total();
}

struct Fixture {
  explicit Fixture(const std::string& specs,
                   const Batcher::Options& options = Batcher::Options())
      : devices(*ParseDevices(specs)),
        runner(devices, {}),
        batcher(runner, options) {}

  DevicePool devices;
  BatchRunner runner;
  Batcher batcher;
};

// A request's answer.
struct Answer {
  absl::Status status;
  std::vector<float> outputs;  // [R, O]
  std::atomic<int> calls = 0;
  absl::Notification done;

  const absl::Status& Wait() {
    done.WaitForNotification();
    return status;
  }
};

// Fills in consume and done.
BatcherRequest Request(const ModelHandle& version, SequenceBatch batch,
                       Answer& answer) {
  BatcherRequest request;
  request.version = version;
  request.batch = std::move(batch);
  const int64_t columns = version->model->output_size();
  const int64_t rows = version->model->pools() ? request.batch.num_sequences()
                                               : request.batch.num_rows();
  answer.outputs.resize(rows * columns);
  request.consume = [&answer, columns](const ChunkRows& chunk) {
    std::copy(chunk.output.data,
              chunk.output.data + chunk.output.rows * columns,
              answer.outputs.begin() + chunk.first_output_row * columns);
    return absl::OkStatus();
  };
  request.done = [&answer](const absl::Status& status) {
    answer.status = status;
    EXPECT_EQ(++answer.calls, 1);
    answer.done.Notify();
  };
  return request;
}

CarriedState::Values Read(const CarriedState& state) {
  absl::StatusOr<CarriedState::Values> read;
  absl::Notification done;
  state.Read([&](auto values) {
    read = std::move(values);
    done.Notify();
  });
  done.WaitForNotification();
  EXPECT_TRUE(read.ok()) << read.status();
  return *std::move(read);
}

// --- The promise: bits ---

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

TEST(BatcherTest, LiveSequencesHaveTheBitsOfALonePass) {
  for (const char* config : {kSru, kForgetful, kMean, kMax, kLast}) {
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
TEST(BatcherTest, PressureOnMemoryChangesNoBit) {
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

TEST(BatcherTest, StatesMoveFromABusyDeviceToAnIdleOne) {
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
TEST(BatcherTest, AStateComesFromADeviceThatHasNoRoomForTheModel) {
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

TEST(BatcherTest, BatchesOfWholeSequencesHaveTheBitsOfLonePasses) {
  for (const char* config :
       {kSru, kForgetful, kMean, kMax, kLast, kBidirectional}) {
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

// --- Packing ---

TEST(BatcherTest, StepsOfManySessionsAreOnePass) {
  Reference reference(kSru);
  Fixture fixture("cpu:1", Options(256));
  std::vector<std::shared_ptr<CarriedState>> states;
  std::vector<std::unique_ptr<Answer>> answers;
  {
    Gate gate(fixture.devices.device(0));
    for (uint32_t i = 0; i < 200; ++i) {
      states.push_back(
          CarriedState::Create(reference.model().carry_size(), Kind::kPooled));
      answers.push_back(std::make_unique<Answer>());
      BatcherRequest request =
          Request(reference.version(), RandomBatch(reference.model(), {1}, i),
                  *answers.back());
      request.states = {states.back()};
      request.flow = absl::StrCat(i);
      fixture.batcher.Enqueue(std::move(request));
    }
  }
  for (const auto& answer : answers) EXPECT_TRUE(answer->Wait().ok());
  const ServingCounts counts = fixture.batcher.statistics().SnapshotOf("m");
  EXPECT_EQ(counts.passes, 1);
  EXPECT_EQ(counts.rows, 200);
  EXPECT_EQ(counts.succeeded.count, 200);
  EXPECT_EQ(counts.pending, 0);
}

TEST(BatcherTest, ShortRequestsDoNotWaitForALongOne) {
  Reference reference(kSru);
  Fixture fixture("cpu:1", Options(64, 16));
  std::atomic<int64_t> long_rows = 0;
  Answer long_answer;
  BatcherRequest request =
      Request(reference.version(), RandomBatch(reference.model(), {2000}, 1),
              long_answer);
  request.flow = "long";
  request.consume = [&](const ChunkRows& rows) {
    long_rows += rows.chunk.num_rows;
    return absl::OkStatus();
  };
  std::vector<std::unique_ptr<Answer>> answers;
  {
    Gate gate(fixture.devices.device(0));
    fixture.batcher.Enqueue(std::move(request));
    for (uint32_t i = 0; i < 12; ++i) {
      answers.push_back(std::make_unique<Answer>());
      BatcherRequest other =
          Request(reference.version(), RandomBatch(reference.model(), {4}, i),
                  *answers.back());
      other.flow = "short";
      const auto done = other.done;
      other.done = [&, done](const absl::Status& status) {
        // All are in the first pass, with one chunk of the long one.
        EXPECT_LE(long_rows, 16);
        done(status);
      };
      fixture.batcher.Enqueue(std::move(other));
    }
  }
  for (const auto& answer : answers) EXPECT_TRUE(answer->Wait().ok());
  EXPECT_TRUE(long_answer.Wait().ok());
  EXPECT_EQ(long_rows, 2000);
}

TEST(BatcherTest, HigherPrioritiesGoFirst) {
  Reference reference(kSru);
  Fixture fixture("cpu:1", Options(4));
  absl::Mutex mutex;
  std::vector<int> order;
  std::vector<std::unique_ptr<Answer>> answers;
  {
    Gate gate(fixture.devices.device(0));
    for (const int priority : {3, 1, 2}) {
      answers.push_back(std::make_unique<Answer>());
      BatcherRequest request =
          Request(reference.version(), RandomBatch(reference.model(), {4}, 1),
                  *answers.back());
      request.priority = priority;
      const auto done = request.done;
      request.done = [&, done, priority](const absl::Status& status) {
        {
          absl::MutexLock lock(&mutex);
          order.push_back(priority);
        }
        done(status);
      };
      fixture.batcher.Enqueue(std::move(request));
    }
  }
  for (const auto& answer : answers) EXPECT_TRUE(answer->Wait().ok());
  EXPECT_THAT(order, ElementsAre(1, 2, 3));
}

TEST(BatcherTest, PaddingChangesNoBitOfTheRealRows) {
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

// --- Errors ---

TEST(BatcherTest, OneRequestsErrorIsNotItsNeighbours) {
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

TEST(BatcherTest, BidirectionalModelsHaveNoStates) {
  Reference reference(kBidirectional);
  Fixture fixture("cpu:1");
  Answer answer;
  BatcherRequest request = Request(
      reference.version(), RandomBatch(reference.model(), {5}, 1), answer);
  request.states = {
      CarriedState::Create(reference.model().carry_size(), Kind::kHostOnly)};
  fixture.batcher.Enqueue(std::move(request));
  EXPECT_EQ(answer.Wait().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(answer.status.message()),
              HasSubstr("m is bidirectional"));
}

// --- Time, given to the batcher ---

class Clock {
 public:
  std::function<absl::Time()> now() {
    return [this] { return absl::FromUnixNanos(nanos_); };
  }
  absl::Time Now() { return absl::FromUnixNanos(nanos_); }
  void Pass(absl::Duration time) { nanos_ += absl::ToInt64Nanoseconds(time); }

 private:
  std::atomic<int64_t> nanos_ = int64_t{1} << 50;
};

TEST(BatcherTest, WhoseDeadlinePassesWhileItWaitsIsToldThen) {
  Reference reference(kSru);
  Clock clock;
  Batcher::Options options = Options(16);
  options.now = clock.now();
  Fixture fixture("cpu:1", options);
  Gate gate(fixture.devices.device(0));
  Answer expires, stays, cancelled;
  const SequenceBatch batch = RandomBatch(reference.model(), {5}, 1);
  BatcherRequest request = Request(reference.version(), batch, expires);
  request.control.deadline = clock.Now() + absl::Seconds(1);
  fixture.batcher.Enqueue(request);
  fixture.batcher.Enqueue(Request(reference.version(), batch, stays));
  const auto flag = std::make_shared<std::atomic<bool>>(false);
  request = Request(reference.version(), batch, cancelled);
  request.control.cancelled = flag;
  fixture.batcher.Enqueue(request);
  fixture.batcher.Poll();
  EXPECT_FALSE(expires.done.HasBeenNotified());

  clock.Pass(absl::Seconds(1));
  *flag = true;
  fixture.batcher.Poll();  // or the batcher's own thread
  EXPECT_EQ(expires.Wait().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(cancelled.Wait().code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(stays.done.HasBeenNotified());
  gate.Open();
  EXPECT_TRUE(stays.Wait().ok());
  EXPECT_EQ(fixture.batcher.statistics().SnapshotOf("m").rows, 5);
  EXPECT_EQ(fixture.batcher.statistics().SnapshotOf("m").cancelled, 2);
}

TEST(BatcherTest, ADeadlineBetweenPassesLeavesTheStateAsItWas) {
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

TEST(BatcherTest, APassThatIsNotFullWaitsForMoreRequests) {
  Reference reference(kSru);
  Clock clock;
  Batcher::Options options = Options(16);
  options.now = clock.now();
  options.batch_timeout = absl::Seconds(5);
  Fixture fixture("cpu:1", options);
  const SequenceBatch batch = RandomBatch(reference.model(), {5}, 1);
  Answer a, b, c, d;
  for (Answer* answer : {&a, &b, &c, &d}) {  // the last fills it
    fixture.batcher.Enqueue(Request(reference.version(), batch, *answer));
    clock.Pass(absl::Nanoseconds(1));  // they come one after another
  }
  for (Answer* answer : {&a, &b, &c}) EXPECT_TRUE(answer->Wait().ok());
  clock.Pass(absl::Seconds(5));
  fixture.batcher.Poll();
  EXPECT_TRUE(d.Wait().ok());
}

TEST(BatcherTest, HopelessDeadlinesAreRefusedWithAHint) {
  Reference reference(kSru);
  Clock clock;
  Batcher::Options options = Options(16);
  options.now = clock.now();
  Fixture fixture("cpu:1", options);
  Answer measured, waits, refused;
  const auto request = [&](Answer& answer) {
    BatcherRequest request = Request(
        reference.version(), RandomBatch(reference.model(), {64}, 1), answer);
    request.flow = "one";
    request.control.deadline = clock.Now() + absl::Nanoseconds(1);
    return request;
  };
  fixture.batcher.Enqueue(request(measured));
  ASSERT_TRUE(measured.Wait().ok());
  Gate gate(fixture.devices.device(0));
  fixture.batcher.Enqueue(request(waits));
  fixture.batcher.Enqueue(request(refused));
  EXPECT_EQ(refused.Wait().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status.message()),
              HasSubstr("64 rows wait before"));
  EXPECT_TRUE(RetryHint(refused.status).has_value());
  gate.Open();
  EXPECT_TRUE(waits.Wait().ok());
  EXPECT_EQ(fixture.batcher.statistics().SnapshotOf("m").refused, 1);
}

// Ten thousand rows a request wait, without deadlines. How long these take the
// hint of a request of lower priority says.
TEST(BatcherTest, AShortRequestGoesBeforeItsClientsBacklog) {
  Reference reference(kSru);
  Clock clock;
  Batcher::Options options = Options(16, /*max_chunk_rows=*/8);
  options.now = clock.now();
  Fixture fixture("cpu:1", options);
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  std::vector<std::unique_ptr<Answer>> backlog;
  const auto request = [&](int64_t rows, Answer& answer) {
    BatcherRequest request = Request(
        reference.version(), RandomBatch(reference.model(), {rows}, 1), answer);
    request.flow = "one";
    return request;
  };
  Answer measured, hopeless, answered;
  fixture.batcher.Enqueue(request(64, measured));
  ASSERT_TRUE(measured.Wait().ok());
  {
    Gate gate(fixture.devices.device(0));
    for (int i = 0; i < 10; ++i) {
      backlog.push_back(std::make_unique<Answer>());
      BatcherRequest bulk = request(10000, *backlog.back());
      bulk.control.cancelled = cancelled;
      fixture.batcher.Enqueue(std::move(bulk));
    }
    BatcherRequest probe = request(5, hopeless);
    probe.priority = 2;
    probe.control.deadline = clock.Now() + absl::Nanoseconds(1);
    fixture.batcher.Enqueue(std::move(probe));
    ASSERT_TRUE(absl::IsResourceExhausted(hopeless.Wait()));
    const auto backlog_takes = RetryHint(hopeless.status);
    ASSERT_TRUE(backlog_takes.has_value());

    BatcherRequest urgent = request(5, answered);
    urgent.control.deadline = clock.Now() + *backlog_takes / 2;
    urgent.done = [cancelled, done = urgent.done](const absl::Status& status) {
      *cancelled = true;
      done(status);
    };
    fixture.batcher.Enqueue(std::move(urgent));
  }
  EXPECT_TRUE(answered.Wait().ok()) << answered.status;
  for (const auto& answer : backlog) {
    EXPECT_TRUE(absl::IsCancelled(answer->Wait()));
  }
}

TEST(BatcherTest, AFullQueueRefusesWithAHint) {
  Reference reference(kSru);
  Batcher::Options options = Options(16);
  options.max_enqueued = 1;
  Fixture fixture("cpu:1", options);
  Answer first, refused, later;
  const SequenceBatch batch = RandomBatch(reference.model(), {5}, 1);
  {
    Gate gate(fixture.devices.device(0));
    fixture.batcher.Enqueue(Request(reference.version(), batch, first));
    fixture.batcher.Enqueue(Request(reference.version(), batch, refused));
    EXPECT_EQ(refused.Wait().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_TRUE(RetryHint(refused.status).has_value());
  }
  EXPECT_TRUE(first.Wait().ok());
  // The place is free before the answer is given.
  fixture.batcher.Enqueue(Request(reference.version(), batch, later));
  EXPECT_TRUE(later.Wait().ok());
}

// --- Memory ---

TEST(BatcherTest, WhatIsReservedIsWhatTheLargestPassUses) {
  Reference reference(kSru);
  Fixture fixture(Room(BytesOf(reference.model(), 8)), Options(8));
  const std::vector<int64_t> ones(30, 1);
  Answer answer;
  const SequenceBatch batch = RandomBatch(reference.model(), ones, 1);
  fixture.batcher.Enqueue(Request(reference.version(), batch, answer));
  ASSERT_TRUE(answer.Wait().ok()) << answer.status;
  EXPECT_EQ(answer.outputs, reference.Outputs(batch));
  const OwnerMemory owner =
      fixture.devices.device(0).ledger().Snapshot().owners[0];
  EXPECT_EQ(owner.owner, "m");
  EXPECT_EQ(owner.used_high_water, BytesOf(reference.model(), 8));
  EXPECT_EQ(owner.reserved_high_water, BytesOf(reference.model(), 8));
}

TEST(BatcherTest, WhatIsNotCutGrowsTheArenaFirst) {
  Reference reference(kBidirectional);
  const int64_t bytes = InferencePlan(reference.model(), {40, 1}).total();
  Fixture fixture(Room(bytes), Options(8));
  Answer small, large, too_large;
  const SequenceBatch batch = RandomBatch(reference.model(), {2, 40, 3}, 1);
  fixture.batcher.Enqueue(Request(
      reference.version(), RandomBatch(reference.model(), {4}, 1), small));
  fixture.batcher.Enqueue(Request(reference.version(), batch, large));
  EXPECT_TRUE(small.Wait().ok());
  ASSERT_TRUE(large.Wait().ok()) << large.status;
  EXPECT_EQ(large.outputs, reference.Outputs(batch));
  fixture.batcher.Enqueue(Request(reference.version(),
                                  RandomBatch(reference.model(), {2, 60}, 1),
                                  too_large));
  EXPECT_EQ(too_large.Wait().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(too_large.status.message()),
              HasSubstr("sequence 1 has 60 rows"));
}

// Of one that is always in use.
TEST(BatcherTest, AModelGetsItsTurnOnAnothersMemory) {
  Reference a(kSru, "a"), b(kMean, "b");
  Fixture fixture(Room(std::max(BytesOf(a.model(), 8), BytesOf(b.model(), 8))),
                  Options(8));
  std::atomic<bool> b_done = false;
  absl::Notification a_done;
  const SequenceBatch batch = RandomBatch(a.model(), {8}, 1);
  std::function<void()> send = [&] {
    BatcherRequest request;
    request.version = a.version();
    request.batch = batch;
    request.consume = [&](const ChunkRows&) { return absl::OkStatus(); };
    request.done = [&](const absl::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      b_done ? a_done.Notify() : send();
    };
    fixture.batcher.Enqueue(std::move(request));
  };
  {
    Gate gate(fixture.devices.device(0));
    send();
  }
  Answer answer;
  fixture.batcher.Enqueue(
      Request(b.version(), RandomBatch(b.model(), {5}, 1), answer));
  EXPECT_TRUE(answer.Wait().ok()) << answer.status;
  b_done = true;
  a_done.WaitForNotification();
}

TEST(BatcherTest, WhereTrainingHasAllOfADevicesMemoryAnotherServes) {
  Reference reference(kSru);
  const int64_t bytes = BytesOf(reference.model(), 8);
  Fixture fixture(absl::StrCat(Room(bytes), ",", Room(bytes)), Options(8));
  for (const int full : {0, 1}) {
    for (const int rank : {0, 1}) Gate(fixture.devices.device(rank)).Open();
    MemoryPlan plan;
    plan.gradients = 1;
    const auto training =
        *fixture.devices.device(full).ledger().Reserve("jobs/x", plan);
    Answer answer;
    fixture.batcher.Enqueue(Request(
        reference.version(), RandomBatch(reference.model(), {5}, 1), answer));
    EXPECT_TRUE(answer.Wait().ok()) << answer.status;
    fixture.runner.Drop(*reference.version());
  }
}

TEST(BatcherTest, AVersionThatIsDroppedLeavesNothing) {
  Reference reference(kSru);
  Fixture fixture("cpu:1", Options(8));
  Answer answer;
  fixture.batcher.Enqueue(Request(
      reference.version(), RandomBatch(reference.model(), {5}, 1), answer));
  EXPECT_TRUE(answer.Wait().ok());
  // The device has left the version when it comes to another task, and so to
  // the next.
  for (int i = 0; i < 2; ++i) Gate(fixture.devices.device(0)).Open();
  fixture.runner.Drop(*reference.version());
  Gate(fixture.devices.device(0)).Open();
  const LedgerSnapshot memory = fixture.devices.device(0).ledger().Snapshot();
  ASSERT_EQ(memory.owners.size(), 1u);
  EXPECT_EQ(memory.owners[0].owner, "workspace");
  EXPECT_EQ(memory.used_bytes, 0);
}

}  // namespace
}  // namespace recurve
