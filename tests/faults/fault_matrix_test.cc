// One run of a server's life in which, in turn, each call that changes a file
// fails, finds the disk full, or is the last one before the process ends.
// Whatever happens is an error that says so, or nothing at all; nothing that
// was acknowledged is lost; and the training ends with the same weights.
//
//   bazel run //tests/faults:fault_matrix_test -- --all_points
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/faults/actors.h"
#include "tests/faults/promises.h"
#include "tests/faults/server_process.h"
#include "tests/faults/workload.h"

ABSL_FLAG(bool, all_points, false, "every call; otherwise some of them");
ABSL_FLAG(int64_t, points, 20, "how many, of each mode, if not all");
ABSL_FLAG(uint64_t, seed, 1, "which ones");
ABSL_FLAG(int64_t, only, 0, "this one call alone");

namespace recurve::faults {
namespace {

using ::testing::IsEmpty;

// What the system, or SQLite, calls the errors that are made here.
bool SaysWhy(const absl::Status& status) {
  for (const char* words :
       {"Input/output error", "No space left on device", "disk I/O error",
        "database or disk is full", "unable to open database file"}) {
    if (absl::StrContains(status.message(), words)) return true;
  }
  return false;
}

struct Weights {
  std::string text, steps;
};

// Uploads, creates, imports, deletes, trains by a job and by steps, one after
// the other.
class Scenario {
 public:
  explicit Scenario(const Weights& weights)
      : uploader_(promises_, 1, 20'000),
        publisher_(promises_, 1),
        trainee_(promises_, "text", TextSpec("text", "text", 6), weights.text),
        stepper_(promises_, StepSpec(), weights.steps) {}

  // Goes on to the end, or until the server has ended. Errors are tried again.
  void Run(ServerProcess& server, Client& client) {
    const std::vector<Piece> pieces = {
        {&uploader_, 3}, {&publisher_, 2}, {&trainee_, 1}, {&stepper_, 1}};
    stepper_.Reconnected();
    if (!Try(server, [&] { return UploadText(client); })) return;
    for (const Piece& piece : pieces) {
      while (piece.actor->done() < piece.done) {
        if (!Try(server, [&] { return piece.actor->Next(client); })) return;
      }
    }
  }

  void ExpectWhole(Client& client) const {
    EXPECT_THAT(promises_.Broken(client), IsEmpty());
    EXPECT_THAT(HalfWritten(client), IsEmpty());
  }

  Weights weights() const { return {trainee_.sha256(), stepper_.sha256()}; }

 private:
  struct Piece {
    Actor* actor;
    int64_t done;
  };

  static v1::TrainSpec StepSpec() {
    v1::TrainSpec spec = TextSpec("stepped", "text", 2);
    spec.clear_validation();
    return spec;
  }

  absl::Status UploadText(Client& client) {
    v1::UploadDatasetRequest::Header header;
    header.set_dataset_id("text");
    const auto dataset = client.UploadDataset(header, Text(1000));
    if (!dataset.ok()) return dataset.status();
    promises_.Kept(dataset->name(), dataset->sha256());
    return absl::OkStatus();
  }

  // False if the server has ended, or errors do not.
  template <typename Call>
  bool Try(ServerProcess& server, const Call& call) {
    const absl::Time deadline = absl::Now() + kPatience;
    while (true) {
      const bool last = absl::Now() > deadline;
      const absl::Status status = call();
      if (status.ok()) return true;
      if (SaysWhy(status) ? !server.running() : server.EndsSoon()) return false;
      EXPECT_TRUE(SaysWhy(status) && !last) << "the error stays: " << status;
      if (last) return false;
      absl::SleepFor(absl::Milliseconds(20));
    }
  }

  Promises promises_;
  Uploader uploader_;
  Publisher publisher_;
  Trainee trainee_;
  Stepper stepper_;
};

class FaultMatrixTest : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<ServerProcess> Start(const std::string& mode, int64_t n) {
    return ServerProcess::Start(
        data_dir(), "cpu:1", {},
        {"tests/faults/fault_server", mode, absl::StrCat(n)});
  }
  std::string data_dir() const { return folder_.path() + "/data"; }

  // The scenario without a fault: how many calls it makes, and its weights.
  int64_t Count(Weights& weights) {
    Scenario scenario({});
    const auto server = Start("count", 0);
    auto client = server->Connect();
    EXPECT_TRUE(client.ok()) << client.status();
    if (!client.ok()) return 0;
    scenario.Run(*server, **client);
    scenario.ExpectWhole(**client);
    weights = scenario.weights();
    client->reset();
    EXPECT_EQ(server->Terminate(), 0);
    return CallsIn(server->Log());
  }

  // With the `n`-th call going wrong by `mode`; whether all went well.
  bool Survive(const std::string& mode, int64_t n, const Weights& weights) {
    const int failures = Failures();
    std::filesystem::remove_all(data_dir());
    Scenario scenario(weights);
    const auto server = Start(mode, n);
    auto client = server->Connect();
    if (client.ok()) {
      scenario.Run(*server, **client);
      if (mode != "crash") ExpectStaysUp(*server, *std::move(client), scenario);
    } else {
      EXPECT_TRUE(mode == "crash" || SaysWhy(client.status()))
          << client.status();
    }
    const std::string where = server->Log();
    server->Kill();
    GoOn(scenario);
    if (Failures() == failures) return true;
    std::printf("%s %jd:\n%s", mode.c_str(), static_cast<intmax_t>(n),
                where.c_str());
    return false;
  }

 private:
  // So far in this test.
  static int Failures() {
    return testing::UnitTest::GetInstance()
        ->current_test_info()
        ->result()
        ->total_part_count();
  }

  static int64_t CallsIn(const std::string& log) {
    const size_t end = log.rfind(" calls\n");
    const size_t begin = log.rfind('\n', end) + 1;
    return std::atoll(log.substr(begin, end - begin).c_str());
  }

  static void ExpectStaysUp(ServerProcess& server,
                            std::unique_ptr<Client> client,
                            const Scenario& scenario) {
    EXPECT_TRUE(server.running()) << server.Log();
    scenario.ExpectWhole(*client);
    client.reset();
    EXPECT_EQ(server.Terminate(), 0) << server.Log();
  }

  // The same folder under a server whose disk works.
  void GoOn(Scenario& scenario) {
    const auto server = Start("count", 0);
    auto client = server->Connect();
    ASSERT_TRUE(client.ok()) << client.status();
    scenario.ExpectWhole(**client);
    scenario.Run(*server, **client);
    scenario.ExpectWhole(**client);
    client->reset();
    EXPECT_EQ(server->Terminate(), 0) << server->Log();
  }

  Folder folder_;
};

std::vector<int64_t> Points(int64_t calls) {
  const int64_t only = absl::GetFlag(FLAGS_only);
  if (only > 0) return {only};
  const int64_t count = absl::GetFlag(FLAGS_all_points)
                            ? calls
                            : std::min(calls, absl::GetFlag(FLAGS_points));
  std::mt19937_64 random(absl::GetFlag(FLAGS_seed));
  std::vector<int64_t> points;
  for (int64_t i = 0; i < count; ++i) {  // one of each equal part
    const int64_t begin = calls * i / count, end = calls * (i + 1) / count;
    points.push_back(begin + 1 +
                     static_cast<int64_t>(random() % (end - begin)));
  }
  return points;
}

TEST_P(FaultMatrixTest, SurvivesEachPoint) {
  Weights weights;
  const int64_t calls = Count(weights);
  ASSERT_GT(calls, 0);
  const std::vector<int64_t> points = Points(calls);
  size_t survived = 0;
  for (const int64_t n : points) survived += Survive(GetParam(), n, weights);
  std::printf("%s: %zu points of %jd, %zu survived\n", GetParam(),
              points.size(), static_cast<intmax_t>(calls), survived);
}

INSTANTIATE_TEST_SUITE_P(Modes, FaultMatrixTest,
                         testing::Values("fail", "full", "crash"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace recurve::faults
