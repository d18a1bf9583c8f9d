#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "server/services/service_test_util.h"

namespace recurve::server {
namespace {

using grpc::StatusCode;
using Stub = v1::Jobs::Stub;

class JobsTest : public ServiceTest {
 protected:
  grpc::Status Train(const v1::TrainRequest& request, v1::Job* job) {
    return Call(*jobs, &Stub::Train, request, job);
  }
  v1::Job GetJob(const std::string& name) {
    v1::GetJobRequest request;
    request.set_name(name);
    v1::Job job;
    ExpectOk(Call(*jobs, &Stub::GetJob, request, &job));
    return job;
  }
  void WaitForStep(const std::string& name, int64_t step) {
    WaitUntil("the job does that step",
              [&] { return GetJob(name).step() >= step; });
  }
  // `begun` is notified by the first event.
  grpc::Status Watch(const std::string& name, int64_t first_event,
                     std::vector<v1::JobEvent>* events,
                     absl::Notification* begun = nullptr) {
    v1::WatchJobRequest request;
    request.set_name(name);
    request.set_first_event(first_event);
    grpc::ClientContext context;
    SetDeadline(context);
    auto reader = jobs->WatchJob(&context, request);
    v1::JobEvent event;
    while (reader->Read(&event)) {
      if (begun != nullptr && events->empty()) begun->Notify();
      events->push_back(event);
    }
    return reader->Finish();
  }
  grpc::Status Cancel(const std::string& name, v1::Job* job) {
    v1::CancelJobRequest request;
    request.set_name(name);
    return Call(*jobs, &Stub::CancelJob, request, job);
  }

  static v1::TrainRequest Request(int64_t max_steps) {
    v1::TrainRequest request;
    v1::TrainSpec& spec = *request.mutable_spec();
    spec.set_model("models/lm");
    *spec.mutable_config() = TokenConfig();
    spec.mutable_data()->set_dataset("datasets/text");
    spec.mutable_format()->mutable_text();
    spec.mutable_loader()->set_batch_size(2);
    spec.mutable_loader()->set_unroll(3);
    *spec.mutable_trainer() = SgdConfig();
    spec.set_max_steps(max_steps);
    spec.set_report_every_steps(2);
    return request;
  }
  void UploadText() { Upload("text", "abcdeabcdeabcde"); }
};

TEST_F(JobsTest, TrainsWatchesAndPublishes) {
  UploadText();
  v1::TrainRequest request = Request(10);
  request.set_job_id("j");
  request.set_request_id("r");
  v1::Job job;
  ExpectOk(Train(request, &job));
  EXPECT_EQ(job.name(), "jobs/j");
  EXPECT_EQ(job.spec().SerializeAsString(), request.spec().SerializeAsString());
  std::vector<v1::JobEvent> events;
  ExpectOk(Watch("jobs/j", 0, &events));
  ASSERT_GE(events.size(), 4u);
  bool metrics = false;
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].number(), static_cast<int64_t>(i));
    metrics = metrics || events[i].has_metrics();
  }
  EXPECT_TRUE(metrics);
  EXPECT_EQ(events.front().state().state(), v1::Job::QUEUED);
  EXPECT_EQ(events.back().state().state(), v1::Job::SUCCEEDED)
      << events.back().state().cause();

  job = GetJob("jobs/j");
  EXPECT_EQ(job.state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(job.step(), 10);
  EXPECT_EQ(job.model_version(), "models/lm/versions/1");
  v1::PredictRequest predict;
  predict.set_model(job.model_version());
  *predict.mutable_batch() = Tokens({{0, 1}});
  v1::PredictResponse prediction;
  ExpectOk(
      Call(*inference, &v1::Inference::Stub::Predict, predict, &prediction));

  // From the middle, and once more by the request id.
  std::vector<v1::JobEvent> rest;
  ExpectOk(Watch("jobs/j", 3, &rest));
  ASSERT_EQ(rest.size(), events.size() - 3);
  EXPECT_EQ(rest[0].number(), 3);
  rest.clear();
  ExpectOk(Watch("jobs/j", 1000, &rest));
  EXPECT_TRUE(rest.empty());
  ExpectOk(Train(request, &job));
  EXPECT_EQ(job.name(), "jobs/j");
  EXPECT_EQ(job.state(), v1::Job::SUCCEEDED);

  v1::ListJobsResponse page;
  ExpectOk(Call(*jobs, &Stub::ListJobs, v1::ListJobsRequest(), &page));
  ASSERT_EQ(page.jobs_size(), 1);
  EXPECT_EQ(page.jobs(0).name(), "jobs/j");
}

TEST_F(JobsTest, CancelsARunningJobWhileItIsWatched) {
  UploadText();
  v1::Job job;
  ExpectOk(Train(Request(100000000), &job));
  std::vector<v1::JobEvent> events;
  std::thread watcher([&] { ExpectOk(Watch(job.name(), 0, &events)); });
  WaitForStep(job.name(), 1);
  v1::Job cancelled;
  ExpectOk(Cancel(job.name(), &cancelled));
  watcher.join();
  EXPECT_EQ(events.back().state().state(), v1::Job::CANCELLED);
  ExpectOk(Cancel(job.name(), &cancelled));
  EXPECT_EQ(cancelled.state(), v1::Job::CANCELLED);
}

TEST_F(JobsTest, WatchersThatVanishAreForgotten) {
  UploadText();
  v1::Job job;
  ExpectOk(Train(Request(100000000), &job));
  for (int i = 0; i < 20; ++i) {
    v1::WatchJobRequest request;
    request.set_name(job.name());
    grpc::ClientContext context;
    auto reader = jobs->WatchJob(&context, request);
    v1::JobEvent event;
    EXPECT_TRUE(reader->Read(&event));
    context.TryCancel();
    while (reader->Read(&event)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), StatusCode::CANCELLED);
  }
  ExpectOk(Cancel(job.name(), &job));
  std::vector<v1::JobEvent> events;
  ExpectOk(Watch(job.name(), 0, &events));
}

TEST_F(JobsTest, TooManyStreamsAreRefused) {
  config.set_max_streams(1);
  Start();
  UploadText();
  v1::Job job;
  ExpectOk(Train(Request(100000000), &job));
  v1::WatchJobRequest request;
  request.set_name(job.name());
  grpc::ClientContext context;
  auto reader = jobs->WatchJob(&context, request);
  v1::JobEvent event;
  EXPECT_TRUE(reader->Read(&event));
  std::vector<v1::JobEvent> events;
  ExpectError(Watch(job.name(), 0, &events), StatusCode::RESOURCE_EXHAUSTED,
              "streaming calls");
}

TEST_F(JobsTest, ACancellationDoesNotWaitForEvaluations) {
  config.set_work_threads(1);
  Start();
  v1::ModelConfig large = TokenConfig();
  large.mutable_blocks(0)->mutable_sru()->set_hidden_size(1024);
  CreateModel("large", large);
  grpc::ClientContext context;
  grpc::Status evaluated;
  std::thread evaluation([&] {
    v1::EvaluateRequest request;
    request.set_model("models/large");
    *request.mutable_batch() = Tokens({std::vector<int32_t>(900000, 1)});
    v1::EvaluateResponse response;
    evaluated = inference->Evaluate(&context, request, &response);
  });
  WaitForRows();
  v1::Job job;
  ExpectError(Cancel("jobs/none", &job), StatusCode::NOT_FOUND, "none");
  context.TryCancel();
  evaluation.join();
  // Not OK: it was still going on.
  EXPECT_EQ(evaluated.error_code(), StatusCode::CANCELLED);
}

TEST_F(JobsTest, BadRequestsSayWhatIsWrong) {
  UploadText();
  v1::Job job;
  v1::TrainRequest request = Request(10);
  request.mutable_spec()->clear_max_steps();
  ExpectError(Train(request, &job), StatusCode::INVALID_ARGUMENT, "max_steps");
  request = Request(10);
  request.mutable_spec()->set_model("lm");
  ExpectError(Train(request, &job), StatusCode::INVALID_ARGUMENT, "model");
  request = Request(10);
  request.set_job_id("J");
  ExpectError(Train(request, &job), StatusCode::INVALID_ARGUMENT, "id");
  std::vector<v1::JobEvent> events;
  ExpectError(Watch("jobs/none", 0, &events), StatusCode::NOT_FOUND, "none");
  ExpectError(Watch("none", 0, &events), StatusCode::INVALID_ARGUMENT,
              "jobs/ID");
  ExpectError(Cancel("jobs/none", &job), StatusCode::NOT_FOUND, "none");
  // What only the data can tell fails the job, with its cause.
  request = Request(10);
  request.mutable_spec()->mutable_data()->set_dataset("datasets/none");
  ExpectOk(Train(request, &job));
  ExpectOk(Watch(job.name(), 0, &events));
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().state().state(), v1::Job::FAILED);
  EXPECT_NE(events.back().state().cause().find("none"), std::string::npos);
}

TEST_F(JobsTest, AServerThatDrainsSendsItsWatchersToTheNextOne) {
  UploadText();
  v1::Job job;
  ExpectOk(Train(Request(100000000), &job));
  std::vector<v1::JobEvent> events;
  grpc::Status status;
  absl::Notification begun;
  std::thread watcher([&] { status = Watch(job.name(), 0, &events, &begun); });
  begun.WaitForNotification();
  server_->Drain(absl::Hours(1));  // it does not wait for the watcher
  watcher.join();
  ExpectError(status, StatusCode::UNAVAILABLE, "goes on when it is back");
  EXPECT_EQ(events.back().state().state(), v1::Job::QUEUED);
}

TEST_F(JobsTest, AWatchGoesOnWithTheNextEventOverARestart) {
  UploadText();
  v1::Job job;
  ExpectOk(Train(Request(100000000), &job));
  for (int restart = 0; restart < 2; ++restart) {
    std::vector<v1::JobEvent> seen;
    absl::Notification begun;
    std::thread watcher([&] {
      EXPECT_EQ(Watch(job.name(), 0, &seen, &begun).error_code(),
                StatusCode::UNAVAILABLE);
    });
    begun.WaitForNotification();
    server_->Drain(kPatience);
    watcher.join();
    Start();
    std::vector<v1::JobEvent> rest;
    absl::Notification goes_on;
    std::thread next([&] {
      Watch(job.name(), static_cast<int64_t>(seen.size()), &rest, &goes_on);
    });
    goes_on.WaitForNotification();
    WaitUntil("the job runs again",
              [&] { return GetJob(job.name()).state() != v1::Job::QUEUED; });
    if (restart == 1) ExpectOk(Cancel(job.name(), &job));
    server_->Drain(kPatience);
    next.join();
    ASSERT_FALSE(rest.empty());
    seen.insert(seen.end(), rest.begin(), rest.end());
    for (size_t i = 0; i < seen.size(); ++i) {
      ASSERT_EQ(seen[i].number(), static_cast<int64_t>(i));
    }
    Start();
  }
  EXPECT_EQ(GetJob(job.name()).state(), v1::Job::CANCELLED);
}

TEST_F(JobsTest, PausesAndResumes) {
  UploadText();
  v1::Job job;
  ExpectOk(Train(Request(100000000), &job));
  const std::string first = job.name();
  WaitUntil("it runs",
            [&] { return GetJob(first).state() != v1::Job::QUEUED; });
  v1::TrainRequest second = Request(10);
  second.set_job_id("second");
  second.set_owner("someone");
  second.set_priority(7);
  ExpectOk(Train(second, &job));
  EXPECT_EQ(job.owner(), "someone");
  EXPECT_EQ(job.priority(), 7);
  EXPECT_NE(job.cause().find("waiting: 1 job runs"), std::string::npos);
  EXPECT_EQ(GetJob("jobs/second").cause(), job.cause());

  v1::ListJobsResponse page;
  ExpectOk(Call(*jobs, &Stub::ListJobs, v1::ListJobsRequest(), &page));
  ASSERT_EQ(page.jobs_size(), 2);
  EXPECT_EQ(page.jobs(0).cause(), job.cause());
  EXPECT_EQ(page.jobs(1).name(), first);

  v1::PauseJobRequest pause;
  pause.set_name(first);
  ExpectOk(Call(*jobs, &Stub::PauseJob, pause, &job));
  std::vector<v1::JobEvent> events;
  ExpectOk(Watch("jobs/second", 0, &events));  // it runs meanwhile
  EXPECT_EQ(events.back().state().state(), v1::Job::SUCCEEDED);
  EXPECT_EQ(GetJob(first).state(), v1::Job::PAUSED);
  ExpectOk(Call(*jobs, &Stub::PauseJob, pause, &job));
  EXPECT_EQ(job.state(), v1::Job::PAUSED);

  v1::ResumeJobRequest resume;
  resume.set_name(first);
  ExpectOk(Call(*jobs, &Stub::ResumeJob, resume, &job));
  ExpectError(Call(*jobs, &Stub::ResumeJob, resume, &job),
              StatusCode::FAILED_PRECONDITION, "cannot be resumed");
  ExpectOk(Cancel(first, &job));
  resume.set_name("jobs/none");
  ExpectError(Call(*jobs, &Stub::ResumeJob, resume, &job),
              StatusCode::NOT_FOUND, "none");
}

TEST_F(JobsTest, DeletesEndedJobs) {
  UploadText();
  v1::Job job;
  ExpectOk(Train(Request(100000000), &job));
  v1::DeleteJobRequest remove;
  remove.set_name(job.name());
  google::protobuf::Empty empty;
  ExpectError(Call(*jobs, &Stub::DeleteJob, remove, &empty),
              StatusCode::FAILED_PRECONDITION, "cancel");
  ExpectOk(Cancel(job.name(), &job));
  std::vector<v1::JobEvent> events;
  ExpectOk(Watch(job.name(), 0, &events));
  ExpectOk(Call(*jobs, &Stub::DeleteJob, remove, &empty));
  ExpectError(Watch(job.name(), 0, &events), StatusCode::NOT_FOUND,
              "not found");
  ExpectError(Call(*jobs, &Stub::DeleteJob, remove, &empty),
              StatusCode::NOT_FOUND, "not found");
}

TEST_F(JobsTest, AWatchFromBeyondTheLastEventWaitsForIt) {
  UploadText();
  v1::Job job;
  ExpectOk(Train(Request(100000000), &job));
  std::vector<v1::JobEvent> events;
  std::thread watcher([&] { ExpectOk(Watch(job.name(), 50, &events)); });
  WaitForStep(job.name(), 120);
  ExpectOk(Cancel(job.name(), &job));
  watcher.join();
  ASSERT_FALSE(events.empty());
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i].number(), static_cast<int64_t>(50 + i));
  }
  EXPECT_EQ(events.back().state().state(), v1::Job::CANCELLED);
  ExpectError(Watch(job.name(), -1, &events), StatusCode::INVALID_ARGUMENT,
              "first_event");
}

// Memory of a device, in bytes, of which the workspace takes 2374 KiB.
constexpr int64_t kWorkspaceBytes = 2374 << 10;

std::string LongText() {
  std::string text;
  while (text.size() < 4000) text += "abcdeedcba";
  return text;
}

TEST_F(JobsTest, WhatNoDeviceHoldsIsRefusedAtOnceAndWhatIsSuggestedTrains) {
  // 40 KiB for training.
  const std::string budget = std::to_string(kWorkspaceBytes + (50 << 10));
  config.set_devices("cpu:1:memory=" + budget + ",cpu:1:memory=" + budget);
  Start();
  Upload("text", LongText());
  v1::TrainRequest request = Request(10);
  request.set_request_id("r");
  request.mutable_spec()->mutable_loader()->set_batch_size(30);
  request.mutable_spec()->mutable_loader()->set_unroll(20);
  v1::Job job;
  const grpc::Status refused = Train(request, &job);
  const std::string before =
      "the largest trainer.micro_batch_rows that fits is ";
  ExpectError(refused, StatusCode::RESOURCE_EXHAUSTED, "activations ");
  ExpectError(refused, StatusCode::RESOURCE_EXHAUSTED, before);
  v1::ListJobsResponse page;
  ExpectOk(Call(*jobs, &Stub::ListJobs, v1::ListJobsRequest(), &page));
  EXPECT_EQ(page.jobs_size(), 0);

  const std::string& message = refused.error_message();
  const int rows =
      std::stoi(message.substr(message.find(before) + before.size()));
  request.mutable_spec()->mutable_trainer()->set_micro_batch_rows(rows);
  ExpectOk(Train(request, &job));
  std::vector<v1::JobEvent> events;
  ExpectOk(Watch(job.name(), 0, &events));
  EXPECT_EQ(events.back().state().state(), v1::Job::SUCCEEDED)
      << events.back().state().cause();

  // What was accepted stays accepted, also where it would not fit any more.
  config.set_devices("cpu:1:memory=" + std::to_string(kWorkspaceBytes + 1000));
  Start();
  v1::Job again;
  ExpectOk(Train(request, &again));
  EXPECT_EQ(again.name(), job.name());
}

TEST_F(JobsTest, AnIdleModelMakesRoomForAJob) {
  config.set_devices("cpu:1:memory=" +
                     std::to_string(kWorkspaceBytes + (4 << 20)));
  config.set_serving_memory_share(0);  // so that it is in the way
  Start();
  Upload("text", LongText());
  v1::ModelConfig large = TokenConfig();
  large.mutable_blocks(0)->mutable_sru()->set_hidden_size(128);
  CreateModel("idle", large);
  v1::PredictRequest predict;
  predict.set_model("models/idle");
  *predict.mutable_batch() = Tokens({{0, 1}});
  const auto expect_predicts = [&] {
    v1::PredictResponse prediction;
    ExpectOk(
        Call(*inference, &v1::Inference::Stub::Predict, predict, &prediction));
  };
  const auto held_by_model = [&] {
    v1::ListDevicesResponse list;
    ExpectOk(Call(*devices, &v1::Devices::Stub::ListDevices,
                  v1::ListDevicesRequest(), &list));
    for (const v1::MemoryOwner& owner : list.devices(0).owners()) {
      if (owner.owner() == "models/idle/versions/1") {
        return owner.planned_bytes();
      }
    }
    return int64_t{0};
  };
  expect_predicts();
  EXPECT_GT(held_by_model(), 1 << 20);

  v1::TrainRequest request = Request(4);
  *request.mutable_spec()->mutable_config() = large;
  request.mutable_spec()->mutable_loader()->set_batch_size(30);
  request.mutable_spec()->mutable_loader()->set_unroll(20);
  // About 3 MiB: both do not fit.
  request.mutable_spec()->mutable_trainer()->set_micro_batch_rows(400);
  v1::Job job;
  ExpectOk(Train(request, &job));
  std::vector<v1::JobEvent> events;
  ExpectOk(Watch(job.name(), 0, &events));
  EXPECT_EQ(events.back().state().state(), v1::Job::SUCCEEDED)
      << events.back().state().cause();
  // The job found the model in its way, and the model went.
  std::string warnings;
  for (const v1::JobEvent& event : events) {
    warnings += event.warning();
  }
  EXPECT_NE(warnings.find("held by models/idle/versions/1"), std::string::npos)
      << warnings;
  EXPECT_EQ(held_by_model(), 0);
  expect_predicts();  // it comes back
  EXPECT_GT(held_by_model(), 0);
}

TEST_F(JobsTest, NamesThatAreTooLongAreRefused) {
  v1::TrainRequest request = Request(10);
  request.set_request_id(std::string(257, 'r'));
  v1::Job job;
  ExpectError(Train(request, &job), StatusCode::INVALID_ARGUMENT,
              "request_id: has 257 bytes, the limit is 256");
  request = Request(10);
  request.set_owner("a/b");
  ExpectError(Train(request, &job), StatusCode::INVALID_ARGUMENT, "owner");
  request = Request(10);
  request.set_priority(101);
  ExpectError(Train(request, &job), StatusCode::INVALID_ARGUMENT, "priority");
}

}  // namespace
}  // namespace recurve::server
