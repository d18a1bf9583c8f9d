// What is taken up again comes out the same. A job and a trainer that begin on
// one device, go on on three and end on two have the weights of those that were
// never interrupted.
//
//   bazel run //tests/faults:resume_test
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/faults/actors.h"
#include "tests/faults/promises.h"
#include "tests/faults/server_process.h"
#include "tests/faults/workload.h"

namespace recurve::faults {
namespace {

using ::testing::HasSubstr;

// Of a job, at least. One that ends before it could be interrupted is done over
// with more, so that no test depends on who is faster.
constexpr int64_t kSteps = 150;
constexpr int64_t kMoreSteps = 4;               // times as many
constexpr int64_t kInterruptions[] = {30, 80};  // steps after which it ends
constexpr const char* kDevices[] = {"cpu:1", "cpu:1,cpu:1,cpu:1",
                                    "cpu:1,cpu:1"};

// How a server ends.
enum class End { kTerminated, kKilled };

std::string Upload(Client& client) {
  v1::UploadDatasetRequest::Header header;
  header.set_dataset_id("text");
  const auto dataset = client.UploadDataset(header, Text(4000));
  EXPECT_TRUE(dataset.ok()) << dataset.status();
  return "text";
}

std::string Submit(Client& client, int64_t steps) {
  v1::TrainRequest request;
  *request.mutable_spec() = TextSpec("text", Upload(client), steps);
  const auto job = client.Train(request);
  EXPECT_TRUE(job.ok()) << job.status();
  return job.ok() ? job->name() : "";
}

// Returns once the job has reported that step.
void WatchUntil(Client& client, const std::string& job, int64_t step) {
  const absl::Status status =
      client.WatchJob(job, 0, [&](const v1::JobEvent& event) {
        return event.metrics().step() >= step ? absl::CancelledError()
                                              : absl::OkStatus();
      });
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
}

v1::Job WatchToEnd(Client& client, const std::string& job) {
  v1::Job last;
  const absl::Status status =
      client.WatchJob(job, 0, [&](const v1::JobEvent& event) {
        if (event.has_state()) last = event.state();
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(last.state(), v1::Job::SUCCEEDED) << last.ShortDebugString();
  return last;
}

class ResumeTest : public testing::Test {
 protected:
  void Start(const std::string& devices) {
    server_ = ServerProcess::Start(folder_.path() + "/data", devices);
    auto client = server_->Connect();
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }
  void Stop(End end) {
    client_.reset();
    if (end == End::kKilled) return server_->Kill();
    EXPECT_EQ(server_->Terminate(), 0);
  }
  std::string Sha256(const v1::Job& job) {
    const auto version = client_->GetModelVersion(job.model_version());
    EXPECT_TRUE(version.ok()) << version.status();
    return version.ok() ? version->sha256() : "";
  }

  Folder folder_;
  std::unique_ptr<ServerProcess> server_;
  std::unique_ptr<Client> client_;
};

class DevicesTest : public ResumeTest, public testing::WithParamInterface<End> {
 protected:
  // A job that is interrupted as often as there is time; as it ended.
  v1::Job TrainOnOneThenThreeThenTwo(int64_t steps) {
    Start(kDevices[0]);
    if (HasFailure()) return {};
    const std::string job = Submit(*client_, steps);
    for (int i = 0; i < 2; ++i) {
      WatchUntil(*client_, job, kInterruptions[i]);
      Stop(GetParam());
      Start(kDevices[i + 1]);
      if (HasFailure()) return {};
    }
    return WatchToEnd(*client_, job);
  }
};

TEST_P(DevicesTest, AJobOnOneThenThreeThenTwoHasTheSameWeights) {
  int64_t steps = kSteps;
  v1::Job end = TrainOnOneThenThreeThenTwo(steps);
  while (end.runs() < 3 && !HasFailure()) {
    Stop(End::kTerminated);
    end = TrainOnOneThenThreeThenTwo(steps *= kMoreSteps);
  }
  if (HasFailure()) return;
  EXPECT_EQ(end.runs(), 3);
  ASSERT_EQ(end.devices_size(), 3);
  for (const v1::DeviceTime& device : end.devices()) {
    EXPECT_GT(device.micro_batches(), 0) << device.device();
  }
  const std::string sha256 = Sha256(end);
  Stop(End::kTerminated);
  Start(kDevices[0]);
  if (HasFailure()) return;
  const std::string undisturbed =
      Sha256(WatchToEnd(*client_, Submit(*client_, steps)));
  EXPECT_EQ(sha256, undisturbed);
  std::printf("one device, undisturbed   %s\n1 -> 3 -> 2 devices, %s  %s\n",
              undisturbed.c_str(),
              GetParam() == End::kKilled ? "kill -9" : "SIGTERM",
              sha256.c_str());
}

TEST_P(DevicesTest, ATrainerOnOneThenThreeThenTwoHasTheSameWeights) {
  Promises promises;
  Start(kDevices[0]);
  if (HasFailure()) return;
  v1::TrainSpec spec = TextSpec("text", Upload(*client_), 18);
  spec.clear_validation();
  Stepper stepper(promises, spec);
  ASSERT_TRUE(stepper.Next(*client_).ok());
  for (int i = 0; i < 2; ++i) {
    for (int step = 0; step < 12; ++step) {
      ASSERT_TRUE(stepper.OneStep(*client_).ok());
    }
    Stop(GetParam());
    Start(kDevices[i + 1]);
    if (HasFailure()) return;
    stepper.Reconnected();
  }
  EXPECT_TRUE(stepper.Next(*client_).ok());
  EXPECT_EQ(stepper.retries(), 2);
}

std::filesystem::path NewestCheckpoint(const std::string& job_folder) {
  std::filesystem::path newest;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(job_folder)) {
    const bool checkpoint =
        absl::StartsWith(entry.path().filename().string(), "checkpoint-") &&
        entry.path().extension() == ".safetensors";
    if (!checkpoint) continue;
    if (newest.empty() || entry.path().filename() > newest.filename()) {
      newest = entry.path();
    }
  }
  return newest;
}

void FlipABit(const std::filesystem::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const auto middle =
      static_cast<std::streamoff>(std::filesystem::file_size(path) / 2);
  file.seekg(middle);
  const char byte = static_cast<char>(file.get() ^ 1);
  file.seekp(middle);
  file.put(byte);
}

// Of a job's last step.
bool IsLast(const std::filesystem::path& checkpoint, int64_t steps) {
  return absl::EndsWith(checkpoint.stem().string(), absl::StrCat("-", steps));
}

TEST_F(ResumeTest, ADamagedCheckpointIsReportedAndTheOneBeforeTaken) {
  int64_t steps = kSteps;
  std::string job;
  std::filesystem::path damaged;
  while (true) {
    Start(kDevices[0]);
    if (HasFailure()) return;
    job = Submit(*client_, steps);
    WatchUntil(*client_, job, kInterruptions[0]);
    Stop(End::kKilled);
    damaged = NewestCheckpoint(folder_.path() + "/data/" + job);
    if (!IsLast(damaged, steps)) break;
    steps *= kMoreSteps;
  }
  FlipABit(damaged);
  Start(kDevices[0]);
  if (HasFailure()) return;
  std::string warnings;
  const absl::Status watched =
      client_->WatchJob(job, 0, [&](const v1::JobEvent& event) {
        absl::StrAppend(&warnings, event.warning(), "\n");
        return absl::OkStatus();
      });
  EXPECT_TRUE(watched.ok()) << watched;
  EXPECT_THAT(warnings, HasSubstr(damaged.filename().string()));
  EXPECT_EQ(Sha256(WatchToEnd(*client_, job)),
            Sha256(WatchToEnd(*client_, Submit(*client_, steps))));
}

INSTANTIATE_TEST_SUITE_P(Ends, DevicesTest,
                         testing::Values(End::kTerminated, End::kKilled),
                         [](const auto& info) {
                           return info.param == End::kKilled ? "Killed"
                                                             : "Terminated";
                         });

}  // namespace
}  // namespace recurve::faults
