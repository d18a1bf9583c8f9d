#include "engine/jobs/job_runner.h"

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/train/fake_model_exchange.h"
#include "engine/train/trainer.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using enum JobState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// For what is sure to come, however slow the machine.
constexpr absl::Duration kPatience = absl::Minutes(4);

JobEvaluation Loss(double loss) {
  JobEvaluation evaluation;
  evaluation.loss = loss;
  return evaluation;
}

std::string Text() {
  std::string text;
  for (int i = 0; i < 200; ++i) absl::StrAppend(&text, "abc", i % 7, " ");
  return text;
}

JobRequest Request(const v1::TrainSpec& spec, const std::string& id = "",
                   const std::string& request_id = "") {
  JobRequest request;
  request.spec = spec;
  request.id = id;
  request.request_id = request_id;
  return request;
}

class JobRunnerTest : public ::testing::Test {
 protected:
  JobRunnerTest() : devices_(*ParseDevices("cpu:1,cpu:1")) {
    const std::string folder = absl::StrCat(
        ::testing::TempDir(), "/job_runner_",
        ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(folder);
    DatasetStore::Options options;
    options.directory = folder + "/datasets";
    options_.directory = folder + "/jobs";
    store_ = *DatasetStore::Open(options);
    auto upload = *store_->StartUpload("text", "");
    EXPECT_TRUE(upload->Append(Text()).ok());
    EXPECT_TRUE(upload->Commit().ok());
    evaluate_ = [](const TrainableModel&, const Dataset&, const HeldMemory*,
                   const std::atomic<bool>&) { return Loss(1.25); };
    Start();
  }

  void Start() {
    runner_.reset();
    runner_ = std::make_unique<JobRunner>(
        options_, devices_, *jobs_, *store_, models_,
        HeldOut{[this](const TrainableModel& model, const Dataset& data,
                       const HeldMemory* memory,
                       const std::atomic<bool>& cancelled) {
                  return evaluate_(model, data, memory, cancelled);
                },
                nullptr});
    ASSERT_TRUE(runner_->Start().ok());
  }

  v1::TrainSpec Spec(const std::string& changes) {
    v1::TrainSpec spec;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        R"(model: 'models/m'
           config {
             input { token_embedding { embedding_size: 8 } }
             blocks { sru { hidden_size: 16 dropout: 0.1 } }
             output { linear {} }
             loss { kind: CROSS_ENTROPY }
           }
           data { dataset: 'datasets/text' }
           format { text {} }
           loader { batch_size: 4 unroll: 20 }
           trainer {
             optimizer { adam {} }
             learning_rate { peak: 0.01 }
             accumulation_steps: 2
             micro_batch_rows: 40
             seed: 5
           }
           max_steps: 25
           report_every_steps: 10)",
        &spec));
    google::protobuf::TextFormat::Parser parser;
    EXPECT_TRUE(parser.MergeFromString(changes, &spec)) << changes;
    return spec;
  }

  std::string Submit(const std::string& changes) {
    const auto job = runner_->Submit(Request(Spec(changes)));
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? job->id : "";
  }
  Job WaitForEnd(const std::string& id) {
    const auto job = recurve::WaitForEnd(*jobs_, id, absl::Now() + kPatience);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? *job : Job();
  }
  // Until the job has reported something.
  void WaitUntilItTrains(const std::string& id) {
    EXPECT_TRUE(*WaitForEvent(*jobs_, id, 4, absl::Now() + kPatience));
  }
  // The next evaluation ends when its job has been asked to stop.
  void HoldNextEvaluation() {
    evaluate_ = [this](const TrainableModel&, const Dataset&, const HeldMemory*,
                       const std::atomic<bool>& stopping) {
      if (!held_.HasBeenNotified()) {
        held_.Notify();
        while (!stopping) absl::SleepFor(absl::Milliseconds(1));
      }
      return Loss(1.25);
    };
  }
  std::vector<JobState> States(const std::string& id) {
    std::vector<JobState> states;
    const auto events = *jobs_->Events(id, 0, 0);
    for (const JobEvent& event : events) {
      const Job* job = std::get_if<Job>(&event.what);
      if (job != nullptr) states.push_back(job->state);
    }
    return states;
  }
  std::vector<JobMetrics> Metrics(const std::string& id) {
    std::vector<JobMetrics> metrics;
    const auto events = *jobs_->Events(id, 0, 0);
    for (const JobEvent& event : events) {
      const auto* reported = std::get_if<JobMetrics>(&event.what);
      if (reported != nullptr) metrics.push_back(*reported);
    }
    return metrics;
  }

  static constexpr char kEndless[] =
      "max_steps: 1000000000 report_every_steps: 1";

  JobRunner::Options options_;
  DevicePool devices_;
  std::unique_ptr<DatasetStore> store_;
  std::unique_ptr<JobStore> jobs_ = *JobStore::Open(":memory:");
  FakeModelExchange models_;
  HeldOutEvaluator evaluate_;
  absl::Notification held_;  // the evaluation of HoldNextEvaluation
  std::unique_ptr<JobRunner> runner_;
};

TEST_F(JobRunnerTest, TrainsReportsAndPublishes) {
  const std::string id = Submit("held_out_characters: 100");
  const Job job = WaitForEnd(id);
  ASSERT_EQ(job.state, kSucceeded) << job.cause;
  EXPECT_EQ(job.cause, "25 steps done");
  EXPECT_EQ(job.step, 25);
  EXPECT_EQ(job.max_steps, 25);
  EXPECT_EQ(job.held_out_loss, 1.25);
  EXPECT_EQ(job.model_version, "models/m/versions/1");
  EXPECT_EQ(models_.sources().at("models/m/versions/1"), "jobs/" + id);
  EXPECT_THAT(States(id),
              ElementsAre(kQueued, kValidating, kRunning, kSucceeded));

  const std::vector<JobMetrics> metrics = Metrics(id);
  ASSERT_EQ(metrics.size(), 3u);
  EXPECT_EQ(metrics[0].step, 10);
  EXPECT_EQ(metrics[1].step, 20);
  EXPECT_EQ(metrics[2].step, 25);
  EXPECT_LT(metrics[2].loss, 0.9 * metrics[0].loss);
  EXPECT_EQ(job.loss, metrics[2].loss);
  EXPECT_GT(metrics[0].gradient_norm, 0);
  EXPECT_FLOAT_EQ(metrics[0].learning_rate, 0.01);
  EXPECT_GT(metrics[0].rows_per_second, 0);
  EXPECT_DOUBLE_EQ(metrics[0].fraction_done, 0.4);
  EXPECT_EQ(metrics[2].fraction_done, 1);
  EXPECT_GT(metrics[2].epoch, 0);

  // Every batch has 80 rows but an epoch's last, cut by both devices.
  ASSERT_EQ(job.devices.size(), 2u);
  EXPECT_GT(job.devices[0].rows, 0);
  EXPECT_GT(job.devices[1].rows, 0);
  EXPECT_GT(job.devices[1].micro_batches, 25);
}

TEST_F(JobRunnerTest, TheWeightsAreThoseOfTheLoadersBatchesStepByStep) {
  const Job job = WaitForEnd(Submit("held_out_characters: 100"));
  ASSERT_EQ(job.state, kSucceeded) << job.cause;

  TrainingRun run =
      *PrepareTrainingRun(job.spec, *store_, models_, options_.max_parameters);
  auto trainer = *Trainer::Create(devices_, run.start.model,
                                  run.start.parameters, job.spec.trainer());
  ASSERT_EQ(run.max_batches, 50);
  double loss_sum = 0, weight = 0;
  for (int64_t i = 0; i < 50; ++i) {
    const Batch batch = run.loader->Next();
    StepCall call;
    call.batch = &batch.sequences;
    call.targets = &batch.targets;
    call.continue_streams = batch.continue_streams;
    const auto result = trainer->Step(call);
    ASSERT_TRUE(result.ok()) << result.status();
    if (i < 40) continue;
    loss_sum += result->loss * result->weight;
    weight += result->weight;
  }
  EXPECT_EQ(models_.Load(job.model_version)->parameters,
            *trainer->Parameters());
  EXPECT_EQ(job.loss, loss_sum / weight);
}

TEST_F(JobRunnerTest, JudgesTheTrainedWeightsByTheHeldOutText) {
  std::vector<float> parameters;
  std::string tokens_seen;
  evaluate_ = [&](const TrainableModel& model, const Dataset& data,
                  const HeldMemory*, const std::atomic<bool>&) {
    parameters = model.parameters;
    for (int32_t token : std::get<TextDataset>(data).tokens)
      tokens_seen += model.vocabulary[token];
    return Loss(2.5);
  };
  const Job job = WaitForEnd(Submit("held_out_characters: 30"));
  ASSERT_EQ(job.state, kSucceeded) << job.cause;
  EXPECT_EQ(job.held_out_loss, 2.5);
  EXPECT_EQ(tokens_seen, Text().substr(Text().size() - 30));
  EXPECT_EQ(models_.Load("models/m")->parameters, parameters);
  EXPECT_FALSE(WaitForEnd(Submit("")).held_out_loss.has_value());
}

TEST_F(JobRunnerTest, TrainsAPublishedModelFurther) {
  ASSERT_EQ(WaitForEnd(Submit("")).state, kSucceeded);
  v1::TrainSpec spec = Spec("");
  spec.clear_config();
  const auto submitted = runner_->Submit(Request(spec, "further"));
  ASSERT_TRUE(submitted.ok());
  const Job job = WaitForEnd("further");
  ASSERT_EQ(job.state, kSucceeded) << job.cause;
  EXPECT_EQ(job.model_version, "models/m/versions/2");
  EXPECT_NE(models_.Load("models/m/versions/1")->parameters,
            models_.Load("models/m/versions/2")->parameters);
}

TEST_F(JobRunnerTest, EndsWithTheEpochs) {
  const Job job = WaitForEnd(Submit("max_steps: 0 max_epochs: 2"));
  ASSERT_EQ(job.state, kSucceeded) << job.cause;
  // 999 predictions in 4 streams of 249 steps: 13 batches an epoch.
  EXPECT_EQ(job.step, 13);
  EXPECT_EQ(job.max_steps, 13);
  EXPECT_EQ(Metrics(job.id).back().epoch, 1);
}

TEST_F(JobRunnerTest, CancelsARunningJob) {
  const std::string id = Submit(kEndless);
  WaitUntilItTrains(id);
  const auto cancelling = runner_->Change(id, JobChange::kCancel);
  ASSERT_TRUE(cancelling.ok());
  EXPECT_EQ(cancelling->state, kCancelling);
  const Job job = WaitForEnd(id);
  EXPECT_EQ(job.state, kCancelled);
  EXPECT_EQ(job.cause, "cancelled on request");
  EXPECT_GT(job.step, 0);
  EXPECT_TRUE(models_.sources().empty());
  EXPECT_EQ(runner_->Change(id, JobChange::kCancel)->state,
            kCancelled);  // does nothing
  EXPECT_EQ(runner_->Change("none", JobChange::kCancel).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(JobRunnerTest, CancelsAQueuedJobAtOnce) {
  const std::string running = Submit(kEndless);
  const std::string queued = Submit("");
  const std::string next = Submit("");
  EXPECT_EQ(runner_->Change(queued, JobChange::kCancel)->state, kCancelled);
  EXPECT_THAT(States(queued), ElementsAre(kQueued, kCancelled));
  ASSERT_TRUE(runner_->Change(running, JobChange::kCancel).ok());
  EXPECT_EQ(WaitForEnd(next).state, kSucceeded);
}

TEST_F(JobRunnerTest, CancelsDuringTheEvaluation) {
  absl::Notification begun;
  evaluate_ =
      [&](const TrainableModel&, const Dataset&, const HeldMemory*,
          const std::atomic<bool>& cancelled) -> absl::StatusOr<JobEvaluation> {
    begun.Notify();
    while (!cancelled) absl::SleepFor(absl::Milliseconds(1));
    return absl::CancelledError("");
  };
  const std::string id = Submit("held_out_characters: 100");
  begun.WaitForNotification();
  ASSERT_TRUE(runner_->Change(id, JobChange::kCancel).ok());
  EXPECT_EQ(WaitForEnd(id).state, kCancelled);
  EXPECT_TRUE(models_.sources().empty());
}

// Whenever it comes, a cancellation ends the job in one of two ways.
TEST_F(JobRunnerTest, CancelsAtAnyTime) {
  for (int i = 0; i < 60; ++i) {
    const std::string id = Submit("max_steps: 3 report_every_steps: 1");
    absl::SleepFor(absl::Microseconds(100 * i));
    ASSERT_TRUE(runner_->Change(id, JobChange::kCancel).ok());
    const Job job = WaitForEnd(id);
    ASSERT_TRUE(job.state == kCancelled || job.state == kSucceeded)
        << JobStateName(job.state) << ": " << job.cause;
    ASSERT_EQ(job.state == kSucceeded, !job.model_version.empty());
  }
}

TEST_F(JobRunnerTest, RefusesWrongSpecsAtOnce) {
  EXPECT_EQ(runner_->Submit(Request(Spec("max_steps: -1"))).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(jobs_->List(0, "")->jobs.empty());
}

TEST_F(JobRunnerTest, AJobThatGoesWrongFailsWithItsCause) {
  struct Case {
    const char* changes;
    const char* cause;
  };
  for (const Case& c : {
           Case{"data { dataset: 'datasets/none' }",
                "NOT_FOUND: datasets/none"},
           Case{"format { json_lines {} } loader { unroll: 0 }", "line 1"},
           Case{"trainer { optimizer { sgd {} } learning_rate { peak: 1e30 } }",
                "FAILED_PRECONDITION: the loss is not finite"},
       }) {
    const Job job = WaitForEnd(Submit(c.changes));
    EXPECT_EQ(job.state, kFailed) << c.changes;
    EXPECT_THAT(job.cause, HasSubstr(c.cause));
  }
  EXPECT_TRUE(models_.sources().empty());
  EXPECT_EQ(WaitForEnd(Submit("")).state, kSucceeded);  // nothing else suffers
}

TEST_F(JobRunnerTest, FailsWhereEvaluationOrPublishingDoes) {
  evaluate_ = [](const TrainableModel&, const Dataset&, const HeldMemory*,
                 const std::atomic<bool>&) -> absl::StatusOr<JobEvaluation> {
    throw std::runtime_error("evaluator broke");
  };
  Job job = WaitForEnd(Submit("held_out_characters: 10"));
  EXPECT_EQ(job.state, kFailed);
  EXPECT_EQ(job.cause, "INTERNAL: evaluator broke");
  models_.FailToPublish(absl::ResourceExhaustedError("disk full"));
  job = WaitForEnd(Submit(""));
  EXPECT_EQ(job.state, kFailed);
  EXPECT_EQ(job.cause, "RESOURCE_EXHAUSTED: disk full");
}

TEST_F(JobRunnerTest, AFullQueueRefusesNewJobsOnly) {
  options_.max_queued = 1;
  Start();
  const std::string running = Submit(kEndless);
  WaitUntilItTrains(running);
  const auto queued = runner_->Submit(Request(Spec(""), "queued", "request"));
  ASSERT_TRUE(queued.ok());
  EXPECT_EQ(runner_->Submit(Request(Spec(""))).status().code(),
            absl::StatusCode::kResourceExhausted);
  const auto again = runner_->Submit(Request(Spec(""), "", "request"));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->id, "queued");
  ASSERT_TRUE(runner_->Change(running, JobChange::kCancel).ok());
  EXPECT_EQ(WaitForEnd("queued").state, kSucceeded);
  EXPECT_EQ(models_.sources().size(), 1u);  // it ran once
}

TEST_F(JobRunnerTest, RunsAsManyAtOnceAsItMay) {
  options_.max_running = 2;
  Start();
  const std::string first = Submit(kEndless);
  const std::string second = Submit(kEndless);
  const std::string third = Submit("");
  WaitUntilItTrains(first);
  WaitUntilItTrains(second);
  EXPECT_EQ(jobs_->Get(first)->state, kRunning);
  EXPECT_EQ(jobs_->Get(second)->state, kRunning);
  EXPECT_EQ(jobs_->Get(third)->state, kQueued);
  ASSERT_TRUE(runner_->Change(second, JobChange::kCancel).ok());
  EXPECT_EQ(WaitForEnd(third).state, kSucceeded);
  EXPECT_EQ(jobs_->Get(first)->state, kRunning);
}

TEST_F(JobRunnerTest, RefusesOwnersAndPrioritiesThatThereCannotBe) {
  JobRequest request = Request(Spec(""));
  request.owner = std::string(64, 'o');
  request.priority = -100;
  const auto job = runner_->Submit(request);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->owner, request.owner);
  EXPECT_EQ(job->priority, -100);
  for (const std::string& owner :
       {std::string(65, 'o'), std::string("a b"), std::string("a\n")}) {
    request = Request(Spec(""));
    request.owner = owner;
    EXPECT_EQ(runner_->Submit(request).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  for (int priority : {-101, 101}) {
    request = Request(Spec(""));
    request.priority = priority;
    const absl::Status status = runner_->Submit(request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("-100 to 100"));
  }
}

TEST_F(JobRunnerTest, APausedJobEndsWithTheWeightsOfAnUndisturbedOne) {
  constexpr char kSteps[] =
      "max_steps: 30 validation { fraction: 0.2 every_steps: 11 }";
  const Job undisturbed = WaitForEnd(Submit(kSteps));
  HoldNextEvaluation();
  const std::string id = Submit(kSteps);
  held_.WaitForNotification();
  EXPECT_EQ(runner_->Change(id, JobChange::kPause)->state, kPausing);
  const Job next = WaitForEnd(Submit(""));  // has the devices meanwhile
  EXPECT_EQ(next.state, kSucceeded);
  ASSERT_EQ(jobs_->Get(id)->state, kPaused);
  ASSERT_EQ(runner_->Change(id, JobChange::kResume)->state, kQueued);
  const Job job = WaitForEnd(id);
  ASSERT_EQ(job.state, kSucceeded) << job.cause;
  EXPECT_EQ(job.runs, 2);
  EXPECT_EQ(models_.Load(job.model_version)->parameters,
            models_.Load(undisturbed.model_version)->parameters);
}

TEST_F(JobRunnerTest, PausesDuringTheEvaluation) {
  std::atomic<int> calls = 0;
  absl::Notification begun;
  evaluate_ =
      [&](const TrainableModel&, const Dataset&, const HeldMemory*,
          const std::atomic<bool>& stopping) -> absl::StatusOr<JobEvaluation> {
    if (++calls > 1) return Loss(2);
    begun.Notify();
    while (!stopping) absl::SleepFor(absl::Milliseconds(1));
    return absl::CancelledError("");
  };
  const std::string id = Submit("held_out_characters: 100");
  begun.WaitForNotification();
  ASSERT_EQ(runner_->Change(id, JobChange::kPause)->state, kPausing);
  // Whether the pause has taken effect or not.
  ASSERT_TRUE(runner_->Change(id, JobChange::kResume).ok());
  const Job job = WaitForEnd(id);
  ASSERT_EQ(job.state, kSucceeded) << job.cause;
  EXPECT_EQ(job.runs, 2);
  EXPECT_EQ(job.held_out_loss, 2);
  EXPECT_EQ(models_.sources().size(), 1u);
}

// Whenever pauses and resumes come, the job ends with the same weights.
TEST_F(JobRunnerTest, PausesAtAnyTime) {
  constexpr char kSteps[] = "max_steps: 3 report_every_steps: 1";
  const auto expected =
      models_.Load(WaitForEnd(Submit(kSteps)).model_version)->parameters;
  for (int i = 0; i < 40; ++i) {
    const std::string id = Submit(kSteps);
    absl::SleepFor(absl::Microseconds(150 * i));
    const auto paused = runner_->Change(id, JobChange::kPause);
    ASSERT_TRUE(paused.ok() || absl::IsFailedPrecondition(paused.status()));
    if (i % 2 == 0) absl::SleepFor(absl::Milliseconds(2));
    const auto resumed = runner_->Change(id, JobChange::kResume);
    ASSERT_TRUE(resumed.ok() || absl::IsFailedPrecondition(resumed.status()));
    const Job job = WaitForEnd(id);
    ASSERT_EQ(job.state, kSucceeded) << job.cause;
    ASSERT_EQ(models_.Load(job.model_version)->parameters, expected);
  }
}

TEST_F(JobRunnerTest, AShutdownLeavesJobsToTheNextRunner) {
  HoldNextEvaluation();
  const std::string running =
      Submit("validation { fraction: 0.2 every_steps: 11 }");
  const std::string queued = Submit("");
  held_.WaitForNotification();
  runner_->Shutdown();
  EXPECT_EQ(jobs_->Get(running)->state, kQueued);
  EXPECT_EQ(jobs_->Get(running)->cause, "the server shut down");
  EXPECT_THAT(States(queued), ElementsAre(kQueued));
  EXPECT_EQ(runner_->Submit(Request(Spec(""))).status().code(),
            absl::StatusCode::kUnavailable);
  runner_->Shutdown();  // again: nothing happens
  Start();
  for (const std::string& id : {running, queued}) {
    const Job job = WaitForEnd(id);
    EXPECT_EQ(job.state, kSucceeded) << job.cause;
    EXPECT_EQ(job.runs, id == running ? 2 : 1);
  }
}

TEST_F(JobRunnerTest, ADeletedJobLeavesItsIdToANewOne) {
  const JobRequest request = Request(Spec(""), "a");
  const std::string folder = options_.directory + "/a";
  ASSERT_TRUE(runner_->Submit(request).ok());
  ASSERT_EQ(WaitForEnd("a").state, kSucceeded);
  ASSERT_TRUE(std::filesystem::exists(folder));
  ASSERT_TRUE(runner_->Delete("a").ok());
  EXPECT_TRUE(std::filesystem::is_empty(options_.directory));
  EXPECT_TRUE(jobs_->Deleted()->empty());
  ASSERT_TRUE(runner_->Submit(request).ok());
  ASSERT_EQ(WaitForEnd("a").state, kSucceeded);
  EXPECT_EQ(models_.sources().size(), 2u);
}

// As after a crash between the two.
TEST_F(JobRunnerTest, AStartRemovesTheFolderOfAJobWhoseRecordIsDeleted) {
  ASSERT_TRUE(runner_->Submit(Request(Spec(""), "a")).ok());
  ASSERT_EQ(WaitForEnd("a").state, kSucceeded);
  runner_.reset();
  ASSERT_TRUE(jobs_->Delete("a").ok());
  Start();
  EXPECT_TRUE(std::filesystem::is_empty(options_.directory));
  EXPECT_TRUE(jobs_->Deleted()->empty());
}

// Neither its checkpoints nor its version are this job's.
TEST_F(JobRunnerTest, AnEarlierJobWhoseRecordIsLostIsNotGoneOnWith) {
  const JobRequest request = Request(Spec(""), "a");
  ASSERT_TRUE(runner_->Submit(request).ok());
  ASSERT_EQ(WaitForEnd("a").state, kSucceeded);
  runner_.reset();
  jobs_ = *JobStore::Open(":memory:");
  Start();
  const absl::Status status = runner_->Submit(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("record is lost"));
  const std::string folder = options_.directory + "/a";
  std::filesystem::rename(folder, folder + ".lost");
  ASSERT_TRUE(runner_->Submit(request).ok());
  ASSERT_EQ(WaitForEnd("a").state, kSucceeded);
  EXPECT_EQ(models_.sources().size(), 2u);
}

}  // namespace
}  // namespace recurve
