// Many clients at once, each with a live sequence on a stream, to whom
// everything happens: cancels, deadlines, connections cut, sessions snapshotted
// and restored, forked, moved to other versions, aliases switched under them
// and memory taken away. Each session's outputs are those of an offline run
// over its whole input, its answers are those of a session that was never
// between two requests, and afterwards the server holds what it held before.
//
//   bazel run //tests/pressure:pressure_test -- --streams=2000 --seconds=60
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/faults/draw.h"
#include "tests/faults/server_process.h"
#include "tests/pressure/connection.h"
#include "tests/pressure/streamer.h"
#include "tests/pressure/test_server.h"

ABSL_FLAG(int, streams, 300, "clients, each with a stream");
ABSL_FLAG(int, lives, 2, "sessions of each client in each round, at least");
ABSL_FLAG(int, seconds, 0, "of load in all rounds, at least");
ABSL_FLAG(uint64_t, seed, 1, "of what happens to whom");

namespace recurve::pressure {
namespace {

using faults::Draw;
using faults::kPatience;
using ::testing::IsEmpty;

// Too little for the states of a few hundred sessions beside the models.
constexpr const char* kDevices = "cpu:1:memory=9MiB,cpu:1:memory=9MiB";
constexpr int kHiddenSize = 32;
constexpr int kCrowdHiddenSize = 128;
constexpr int kVersions = 3;
constexpr int kCrowd = 4;  // other models, which want memory too
constexpr int kStreamsPerConnection = 40;
constexpr int kRounds = 4;
constexpr const char* kAliases[] = {"stable", "canary"};
// From the second round on: what an allocator holds that was full once, and is
// in other pieces now.
int64_t MayGrow(int64_t resident) {
  return std::max<int64_t>(8 << 20, resident / 10);
}

class PressureTest : public testing::Test {
 protected:
  // Versions of one model with other weights each, aliases, and the crowd.
  void CreateModels() {
    for (int i = 0; i < kVersions; ++i) {
      const std::string id = i == 0 ? "pressed" : absl::StrCat("seed-", i);
      server_.CreateModel(id, TokenModel(kHiddenSize), i);
      if (i > 0) server_.Publish(id, "pressed");
      versions_.push_back(absl::StrCat("models/pressed/versions/", i + 1));
    }
    for (const char* alias : kAliases) PointAlias(alias, versions_[0]);
    for (int i = 0; i < kCrowd; ++i) {
      server_.CreateModel(absl::StrCat("crowd-", i),
                          TokenModel(kCrowdHiddenSize), i);
    }
  }

  void PointAlias(const std::string& alias, const std::string& version) {
    grpc::ClientContext context;
    v1::SetModelAliasRequest request;
    request.set_name("models/pressed/aliases/" + alias);
    request.set_model_version(version);
    v1::Model model;
    const grpc::Status status =
        server_.models().SetModelAlias(&context, request, &model);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  // All streams at once, each for so many lives and `time`, and what else goes
  // on meanwhile.
  void Press(int lives, absl::Duration time) {
    const int streams = absl::GetFlag(FLAGS_streams);
    Connections connections(server_.address(),
                            streams / kStreamsPerConnection + 1);
    World world{connections, server_.connection(), {},
                versions_,   kVocabulary,          record_};
    for (const char* alias : kAliases) {
      world.models.push_back(absl::StrCat("models/pressed/aliases/", alias));
    }
    const absl::Time end = absl::Now() + time;
    std::atomic<bool> stop{false};
    std::thread switcher([&] { SwitchAliases(stop); });
    std::thread crowd([&] { Crowd(stop); });
    std::vector<std::thread> threads;
    for (int i = 0; i < streams; ++i) {
      threads.emplace_back([&, i] {
        Streamer streamer(
            world, rounds_ * streams + i,
            absl::GetFlag(FLAGS_seed) * 1'000'003 + rounds_ * streams + i);
        for (int life = 0; life < lives || absl::Now() < end; ++life) {
          streamer.LiveOnce();
        }
        streamer.ForgetEnded();
      });
    }
    for (std::thread& thread : threads) thread.join();
    stop = true;
    switcher.join();
    crowd.join();
    ++rounds_;
  }

  void SwitchAliases(const std::atomic<bool>& stop) {
    Draw draw(absl::GetFlag(FLAGS_seed));
    while (!stop) {
      PointAlias(kAliases[draw.Between(0, 1)],
                 versions_[draw.Between(0, kVersions - 1)]);
      record_.Count("alias switched");
      absl::SleepFor(absl::Milliseconds(20));
    }
  }

  // Models that need the memory that idle states have.
  void Crowd(const std::atomic<bool>& stop) {
    for (int i = 0; !stop; ++i) {
      const auto response = server_.client().Predict(PredictionOf(
          absl::StrCat("models/crowd-", i % kCrowd), std::vector<int32_t>(50)));
      record_.Count(response.ok() ? "crowd answered" : "crowd refused");
      if (!response.ok()) {
        EXPECT_TRUE(absl::IsResourceExhausted(response.status()))
            << response.status();
      }
      ExpectWithinBudgets();
      peak_bytes_ = std::max(peak_bytes_, server_.process().ResidentBytes());
      absl::SleepFor(absl::Milliseconds(10));
    }
  }

  void ExpectWithinBudgets() {
    for (const v1::Device& device : server_.Devices()) {
      EXPECT_LE(device.reserved_high_water_bytes(), device.budget_bytes());
      EXPECT_LE(device.memory_bytes(), device.reserved_bytes())
          << device.ShortDebugString();
      for (const v1::MemoryOwner& owner : device.owners()) {
        if (owner.owner() == "sessions") record_.Count("states on a device");
      }
    }
  }

  void DeleteSessions() {
    v1::ListSessionsRequest request;
    request.set_page_size(1000);
    for (;;) {
      grpc::ClientContext context;
      v1::ListSessionsResponse list;
      const grpc::Status status = server_.connection().sessions().ListSessions(
          &context, request, &list);
      ASSERT_TRUE(status.ok()) << status.error_message();
      if (list.sessions().empty()) return;
      for (const v1::Session& session : list.sessions()) {
        grpc::ClientContext delete_context;
        v1::DeleteSessionRequest deletion;
        deletion.set_name(session.name());
        google::protobuf::Empty empty;
        server_.connection().sessions().DeleteSession(&delete_context, deletion,
                                                      &empty);
      }
    }
  }

  void DeleteModels() {
    const auto models = server_.client().ListModels();
    ASSERT_TRUE(models.ok()) << models.status();
    for (const v1::Model& model : *models) {
      const absl::Status status = server_.client().DeleteModel(model.name());
      EXPECT_TRUE(status.ok()) << status;
    }
  }

  // What the last requests leave devices to do takes a moment.
  void ExpectAllGivenBack() {
    const absl::Time deadline = absl::Now() + kPatience;
    while (server_.ReservedBytes() != at_first_ && absl::Now() < deadline) {
      absl::SleepFor(absl::Milliseconds(10));
    }
    EXPECT_EQ(server_.ReservedBytes(), at_first_);
  }

  void PrintCounts() {
    for (const auto& [what, count] : record_.counts()) {
      std::printf("%8jd %s\n", static_cast<intmax_t>(count), what.c_str());
    }
  }

  TestServer server_{
      kDevices,
      {absl::StrCat("--max_streams=", absl::GetFlag(FLAGS_streams) + 100),
       absl::StrCat("--max_enqueued=", 4 * absl::GetFlag(FLAGS_streams))}};
  std::vector<std::string> versions_;
  const std::vector<int64_t> at_first_ = server_.ReservedBytes();
  int rounds_ = 0;
  int64_t peak_bytes_ = 0;  // resident in this round
  Record record_;
};

TEST_F(PressureTest, EverySessionIsWhatItsRequestsMadeIt) {
  CreateModels();
  if (HasFatalFailure()) return;
  std::vector<int64_t> resident;
  for (int round = 0; round < kRounds; ++round) {
    Press(absl::GetFlag(FLAGS_lives),
          absl::Seconds(absl::GetFlag(FLAGS_seconds)) / kRounds);
    DeleteSessions();
    // Under the load, since what is free goes back to the system now and then.
    resident.push_back(std::exchange(peak_bytes_, 0));
    std::printf("round %d: %jd bytes resident at most\n", round,
                static_cast<intmax_t>(resident.back()));
  }
  PrintCounts();
  EXPECT_THAT(record_.failures(), IsEmpty());
  EXPECT_LE(resident.back(), resident[1] + MayGrow(resident[1]));
  ASSERT_TRUE(server_.process().running()) << server_.process().Log();
  DeleteModels();
  ExpectAllGivenBack();
}

}  // namespace
}  // namespace recurve::pressure
