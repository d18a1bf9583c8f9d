// A server that is killed at random instants, again and again, loses nothing
// that it has acknowledged, and what it trains comes out the same.
//
//   bazel run //tests/faults:kill_test -- --kills=50
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/faults/actors.h"
#include "tests/faults/promises.h"
#include "tests/faults/server_process.h"
#include "tests/faults/workload.h"

ABSL_FLAG(int, kills, 10, "how often the server is killed");
ABSL_FLAG(uint64_t, seed, 0, "of the instants; 0: a new one, which is printed");

namespace recurve::faults {
namespace {

using ::testing::IsEmpty;

constexpr const char* kDevices = "cpu:1,cpu:1";
constexpr int64_t kTextSteps = 120;
constexpr int64_t kSequenceSteps = 200;
constexpr int64_t kTrainerSteps = 60;

v1::TrainSpec StepSpec() {
  v1::TrainSpec spec = TextSpec("stepped", "text", kTrainerSteps);
  spec.clear_validation();
  return spec;
}

void Upload(Client& client, Promises& promises, const std::string& id,
            const std::string& bytes) {
  v1::UploadDatasetRequest::Header header;
  header.set_dataset_id(id);
  const auto dataset = client.UploadDataset(header, bytes);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  promises.Kept(dataset->name(), dataset->sha256());
}

// The weights that each kind of training ends with.
struct Weights {
  std::string text, sequences, steps;
};

// All that goes on at a server.
class World {
 public:
  explicit World(const Weights& weights)
      : text_(promises, "text", TextSpec("text", "text", kTextSteps),
              weights.text),
        sequences_(promises, "sequences",
                   SequenceSpec("sequences", "sequences", kSequenceSteps),
                   weights.sequences),
        stepper_(promises, StepSpec(), weights.steps),
        uploader_(promises, 4, 300'000),
        publisher_(promises, 3) {}

  void Prepare(Client& client) {
    Upload(client, promises, "text", Text(4000));
    Upload(client, promises, "sequences", JsonLines(100));
  }

  // All actors at once, for `time` or until the server has gone.
  template <typename Meanwhile>
  void Work(Client& client, const Meanwhile& meanwhile) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (Actor* actor : actors()) {
      threads.emplace_back([&, actor] { actor->Work(client, stop); });
    }
    meanwhile();
    stop = true;
    for (std::thread& thread : threads) thread.join();
  }

  // Each training once more to its end; the weights that came out.
  Weights Finish(Client& client) {
    for (Actor* actor : actors()) {
      const absl::Status status = actor->Next(client);
      EXPECT_TRUE(status.ok()) << status;
    }
    return {text_.sha256(), sequences_.sha256(), stepper_.sha256()};
  }

  void ExpectWhole(Client& client) const {
    EXPECT_THAT(promises.Broken(client), IsEmpty());
    EXPECT_THAT(HalfWritten(client), IsEmpty());
  }

  void Print(const Weights& undisturbed) const {
    std::printf("acknowledged and kept: %d datasets, %d versions, %d jobs\n",
                Count("datasets/"), Count("models/"), Count("jobs/"));
    Print("text", text_, undisturbed.text);
    Print("sequences", sequences_, undisturbed.sequences);
    Print("steps", stepper_, undisturbed.steps);
    std::printf("steps sent twice: %d\n", static_cast<int>(stepper_.retries()));
  }

  Promises promises;

 private:
  std::vector<Actor*> actors() {
    return {&text_, &sequences_, &stepper_, &uploader_, &publisher_};
  }
  template <typename Training>
  static void Print(const char* what, const Training& training,
                    const std::string& undisturbed) {
    std::printf("%-9s  undisturbed %s\n           now         %s, %d times\n",
                what, undisturbed.c_str(), training.sha256().c_str(),
                static_cast<int>(training.done()));
  }
  int Count(const char* prefix) const {
    return static_cast<int>(promises.Names(prefix).size());
  }

  Trainee text_, sequences_;
  Stepper stepper_;
  Uploader uploader_;
  Publisher publisher_;
};

Weights Undisturbed(const std::string& data_dir) {
  const auto server = ServerProcess::Start(data_dir, kDevices);
  auto client = server->Connect();
  EXPECT_TRUE(client.ok()) << client.status();
  if (!client.ok()) return {};
  World world(Weights{});
  world.Prepare(**client);
  const Weights weights = world.Finish(**client);
  client->reset();
  EXPECT_EQ(server->Terminate(), 0);
  return weights;
}

// Instants of kills: most while all actors are at work, some while it starts.
class Instants {
 public:
  explicit Instants(uint64_t seed) : random_(seed) {}
  bool WhileStarting() { return random_() % 5 == 0; }
  absl::Duration StartingFor() { return absl::Microseconds(random_() % 60000); }
  absl::Duration WorkingFor() { return absl::Microseconds(random_() % 500000); }

 private:
  std::mt19937_64 random_;
};

uint64_t Seed() {
  const uint64_t given = absl::GetFlag(FLAGS_seed);
  return given != 0 ? given : std::random_device()() + uint64_t{1};
}

TEST(KillTest, NothingAcknowledgedIsLostAndTheWeightsAreTheSame) {
  const uint64_t seed = Seed();
  std::printf("--seed=%ju\n", static_cast<uintmax_t>(seed));
  Instants instants(seed);
  Folder folder;
  const Weights undisturbed = Undisturbed(folder.path() + "/undisturbed");
  World world(undisturbed);
  if (HasFailure()) return;

  const std::string data_dir = folder.path() + "/data";
  const int kills = absl::GetFlag(FLAGS_kills);
  for (int kill = 0; kill <= kills && !HasFailure(); ++kill) {
    SCOPED_TRACE(testing::Message() << "after " << kill << " kills");
    const auto server = ServerProcess::Start(data_dir, kDevices);
    if (kill > 0 && kill < kills && instants.WhileStarting()) {
      absl::SleepFor(instants.StartingFor());
      server->Kill();
      continue;
    }
    auto client = server->Connect();
    ASSERT_TRUE(client.ok()) << client.status();
    world.ExpectWhole(**client);
    if (kill == 0) world.Prepare(**client);
    if (kill == kills) {
      world.Finish(**client);
      world.ExpectWhole(**client);
      client->reset();
      EXPECT_EQ(server->Terminate(), 0);
      break;
    }
    world.Work(**client, [&] {
      absl::SleepFor(instants.WorkingFor());
      server->Kill();
    });
  }
  std::printf("%d kills\n", kills);
  world.Print(undisturbed);
}

}  // namespace
}  // namespace recurve::faults
