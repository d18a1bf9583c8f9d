// What a job does about validation, checkpoints, numbers that are not finite,
// data that change and disks that fail.
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/file_calls.h"
#include "engine/base/testing/fault_file_calls.h"
#include "engine/base/testing/faults.h"
#include "engine/jobs/job_execution_test_util.h"
#include "engine/jobs/metrics_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using enum JobState;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kNoTime[] = "checkpoints { every_seconds: 1000000000 } ";

class JobPoliciesTest : public JobExecutionFixture {
 protected:
  // Evaluations give these losses, in order; the weights are kept.
  void Evaluate(std::vector<double> losses) {
    evaluate_ = [this, losses](const TrainableModel& model, const Dataset&,
                               const HeldMemory*, const std::atomic<bool>&) {
      JobEvaluation evaluation;
      evaluation.loss = losses[weights_.size() % losses.size()];
      weights_.push_back(model.parameters);
      return evaluation;
    };
  }
  std::vector<float> Published(const Job& job) {
    return models_.Load(job.model_version)->parameters;
  }
  std::vector<int64_t> CheckpointSteps(const std::string& id) {
    std::vector<int64_t> steps;
    const auto events = *jobs_->Events(id, 0, 0);
    for (const JobEvent& event : events) {
      if (const auto* saved = std::get_if<JobCheckpoint>(&event.what)) {
        steps.push_back(saved->step);
      }
    }
    return steps;
  }
  std::vector<std::string> CsvLines(const std::string& id) {
    return absl::StrSplit(ReadBytes(FolderOf(id) + "/metrics.csv"), '\n',
                          absl::SkipEmpty());
  }
  std::string TensorBoardBytes(const std::string& id) {
    for (const auto& entry :
         std::filesystem::directory_iterator(FolderOf(id))) {
      if (entry.path().string().find("tfevents") != std::string::npos) {
        return ReadBytes(entry.path());
      }
    }
    return "";
  }

  std::vector<std::vector<float>> weights_;
};

TEST_F(JobPoliciesTest, EndsWhenItsTimeIsUp) {
  const Job job =
      Run(Submit(kTextSpec, "max_epochs: 0 max_seconds: 60"), "cpu:1");
  ASSERT_EQ(job.state, kSucceeded) << job.cause;
  EXPECT_THAT(job.cause, HasSubstr("max_seconds reached"));
  EXPECT_EQ(job.max_steps, 0);
  EXPECT_GT(job.step, 1);
  EXPECT_EQ(std::get<5>(See(job.id).metrics.back()), 1);  // the fraction done
}

TEST_F(JobPoliciesTest, TheBestWeightsArePublished) {
  const std::string steps = "max_epochs: 0 max_steps: 12 ";
  Evaluate({5, 3, 4, 4.5});
  Job job = Run(Submit(kSequencesSpec, steps), "cpu:1");
  ASSERT_EQ(job.state, kSucceeded) << job.cause;
  ASSERT_EQ(weights_.size(), 3u);  // steps 4, 8 and 12
  EXPECT_EQ(job.best->step, 8);
  EXPECT_EQ(job.best->loss, 3);
  EXPECT_EQ(Published(job), weights_[1]);
  weights_.clear();
  job = Run(Submit(kSequencesSpec, steps + "publish: LAST"), "cpu:1");
  EXPECT_EQ(Published(job), weights_[2]);
  EXPECT_EQ(job.best->step, 8);
  const size_t versions = models_.sources().size();
  job = Run(Submit(kSequencesSpec, steps + "publish: NONE"), "cpu:1");
  EXPECT_EQ(job.state, kSucceeded);
  EXPECT_EQ(job.model_version, "");
  EXPECT_EQ(models_.sources().size(), versions);
}

TEST_F(JobPoliciesTest, EndsEarlyWhereNothingGetsBetter) {
  Evaluate({5, 4, 3.9, 3.95, 3.7, 1});
  const std::string changes =
      "max_epochs: 0 max_steps: 12 validation { every_steps: 2 patience: 2 ";
  Job job = Run(Submit(kSequencesSpec, changes + "}"), "cpu:1");
  ASSERT_EQ(job.state, kSucceeded) << job.cause;
  EXPECT_EQ(job.step, 12);  // never two in a row
  weights_.clear();
  job =
      Run(Submit(kSequencesSpec, changes + "min_improvement: 0.15 }"), "cpu:1");
  ASSERT_EQ(job.state, kSucceeded) << job.cause;
  EXPECT_THAT(job.cause, AllOf(HasSubstr("no better validation loss in 2"),
                               HasSubstr("of step 6, 8 steps done")));
  EXPECT_EQ(job.step, 8);
  EXPECT_EQ(job.best->step, 6);
  EXPECT_EQ(Published(job), weights_[2]);
}

TEST_F(JobPoliciesTest, DataThatCannotBeEvaluatedAreRefusedBeforeTraining) {
  max_evaluation_rows_ = 8;  // of the held-out 10 characters 9 are predicted
  const Job text =
      Run(Submit(kTextSpec, "validation { fraction: 0.05 }"), "cpu:1");
  EXPECT_EQ(text.state, kFailed);
  EXPECT_EQ(text.step, 0);
  EXPECT_THAT(text.cause, HasSubstr("held_out_characters: has 9 rows, the "
                                    "limit is 8"));
  const Job lines = Run(Submit(kSequencesSpec), "cpu:1");
  EXPECT_EQ(lines.state, kFailed);
  EXPECT_THAT(lines.cause, HasSubstr("validation: has 35 rows"));
}

TEST_F(JobPoliciesTest, AFailedValidationSaysThatItWasOneAndWhen) {
  evaluate_ = [](const TrainableModel&, const Dataset&, const HeldMemory*,
                 const std::atomic<bool>&) -> absl::StatusOr<JobEvaluation> {
    return absl::FailedPreconditionError("the loss of row 3 is not finite");
  };
  const Job job =
      Run(Submit(kSequencesSpec, "max_epochs: 0 max_steps: 12 "), "cpu:1");
  EXPECT_EQ(job.state, kFailed);
  EXPECT_EQ(job.cause,
            "FAILED_PRECONDITION: validation after step 4: the loss of row 3 "
            "is not finite");
}

TEST_F(JobPoliciesTest, SavesByStepsAtNewBestsAndAtTheEnd) {
  Evaluate({5, 3, 4});
  const std::string id =
      Submit(kSequencesSpec,
             "max_epochs: 0 max_steps: 13 checkpoints { every_steps: 5 } ");
  const Job job = Run(id, "cpu:1");
  ASSERT_EQ(job.state, kSucceeded) << job.cause;
  EXPECT_THAT(CheckpointSteps(id), ElementsAre(0, 4, 5, 8, 10, 13));
  EXPECT_EQ(job.checkpoint_step, 13);
  ASSERT_THAT(Checkpoints(id), SizeIs(1));
  EXPECT_EQ(Checkpoints(id)[0].step, 13);
}

TEST_F(JobPoliciesTest, SavesByTime) {
  const std::string id =
      Submit(kSequencesSpec,
             "validation { every_steps: 1000 } max_epochs: 0 "
             "max_steps: 20 checkpoints { every_seconds: 10 }");
  ASSERT_EQ(Run(id, "cpu:1").state, kSucceeded);
  EXPECT_GT(CheckpointSteps(id).size(), 3u);
  EXPECT_LT(CheckpointSteps(id).size(), 20u);
}

TEST_F(JobPoliciesTest, ADamagedCheckpointIsReportedAndTheOneBeforeTaken) {
  const std::string changes = "checkpoints { every_steps: 2 keep_last: 3 }";
  const Job expected = Run(Submit(kSequencesSpec, changes), "cpu:1");
  const std::string id = Submit(kSequencesSpec, changes);
  Run(id, "cpu:1", 18, [](JobControl&) { throw Crash(); });
  const auto checkpoints = Checkpoints(id);
  ASSERT_GE(checkpoints.size(), 2u);
  std::ofstream(checkpoints.back().path) << "x";
  const Job job = GoOn(id, "cpu:1");
  ASSERT_EQ(job.state, kSucceeded) << job.cause;
  EXPECT_EQ(Parameters(job), Parameters(expected));
  EXPECT_THAT(See(id).warnings,
              ElementsAre(HasSubstr(absl::StrCat("checkpoint of step ",
                                                 checkpoints.back().step))));
}

TEST_F(JobPoliciesTest, ACheckpointThatCannotBeReadForNowIsWaitedFor) {
  const std::string changes = "checkpoints { every_steps: 2 keep_last: 3 }";
  const Job expected = Run(Submit(kSequencesSpec, changes), "cpu:1");
  const std::string id = Submit(kSequencesSpec, changes);
  Run(id, "cpu:1", 18, [](JobControl&) { throw Crash(); });
  const std::string path = Checkpoints(id).back().path;
  const std::string away = FolderOf(id) + "/away";
  std::filesystem::rename(path, away);
  std::filesystem::create_symlink(path, path);  // a link to itself
  std::thread repair([&] {
    while (See(id).warnings.empty()) std::this_thread::yield();
    std::filesystem::rename(away, path);
  });
  const Job job = GoOn(id, "cpu:1");
  repair.join();
  ASSERT_EQ(job.state, kSucceeded) << job.cause;
  EXPECT_EQ(Parameters(job), Parameters(expected));
  EXPECT_THAT(See(id).warnings,
              ElementsAre(HasSubstr("cannot be read for now: ")));
}

TEST_F(JobPoliciesTest, ChangedDataFailTheJob) {
  const std::string id = Submit(kSequencesSpec, kNoTime);
  Run(id, "cpu:1", 15, [&](JobControl& control) { Pause(id, control); });
  const std::string before = jobs_->Get(id)->data_sha256;
  EXPECT_THAT(before, SizeIs(64));
  Put("lines", Lines(22, 2));
  const Job job = GoOn(id, "cpu:1");
  EXPECT_EQ(job.state, kFailed);
  EXPECT_THAT(job.cause,
              AllOf(HasSubstr("data: the dataset changed under the job"),
                    HasSubstr(before)));
  const std::string other = Submit(kSequencesSpec, kNoTime);
  Run(other, "cpu:1", 15, [&](JobControl& control) { Pause(other, control); });
  Put("other", Lines(8, 3));
  EXPECT_THAT(GoOn(other, "cpu:1").cause,
              HasSubstr("validation.source: the dataset changed"));
}

// The registry may have gone on meanwhile.
TEST_F(JobPoliciesTest, AModelTrainedFurtherGoesOnFromWhereItWas) {
  const Job first = Run(Submit(kSequencesSpec), "cpu:1");
  v1::TrainSpec spec;
  const auto further = [&] {
    JobRequest request;
    google::protobuf::TextFormat::ParseFromString(kSequencesSpec,
                                                  &request.spec);
    request.spec.clear_config();
    bool created;
    return jobs_->Create(request, &created)->id;
  };
  models_.Put("models/m", *models_.Load(first.model_version));
  const Job expected = Run(further(), "cpu:1");
  models_.Put("models/m", *models_.Load(first.model_version));
  const std::string id = further();
  Run(id, "cpu:1", 15, [](JobControl&) { throw Crash(); });
  models_.Put("models/m", *models_.Load(expected.model_version));
  EXPECT_EQ(Parameters(GoOn(id, "cpu:1")), Parameters(expected));
  // Before that is recorded, the job does not begin.
  const std::string other = further();
  Faults faults;
  FaultFileCalls calls(faults);
  Run(other, "cpu:1", 3,
      [&](JobControl&) { faults.FailAt(1, ENOSPC); });  // the first checkpoint
  EXPECT_THAT(See(other).warnings,
              ElementsAre(HasSubstr("no checkpoint of step 0")));
  EXPECT_EQ(CheckpointSteps(other)[0], 0);
}

// --- Numbers that are not finite ---

// Features of which one sequence is beyond what squares in float32.
constexpr char kFeatureSpec[] = R"(
    model: 'models/m'
    config {
      input { features {} }
      blocks { sru { hidden_size: 5 } }
      output { linear {} pooling: POOLING_LAST }
      loss { kind: MEAN_SQUARED_ERROR }
    }
    data { dataset: 'datasets/features' }
    format { json_lines {} }
    loader { batch_size: 3 }
    trainer {
      optimizer { sgd {} }
      learning_rate { peak: 0.01 }
      accumulation_steps: 2
      seed: 7
    }
    max_epochs: 3
    report_every_steps: 1
    checkpoints { every_steps: 2 every_seconds: 1000000000 })";

std::string FeatureLines(double target_of_one) {
  std::string lines;
  for (int i = 0; i < 12; ++i) {
    absl::StrAppend(&lines, "{\"features\": [[", i, ", 1], [0.5, ", i % 3,
                    "]], \"target\": [",
                    i == 5 ? absl::StrCat(target_of_one) : "1", "]}\n");
  }
  return lines;
}

TEST_F(JobPoliciesTest, FailsNamingWhereItBegan) {
  Put("features", FeatureLines(1e30));
  const Job job = Run(Submit(kFeatureSpec), "cpu:1");
  EXPECT_EQ(job.state, kFailed);
  EXPECT_THAT(job.cause,
              AllOf(HasSubstr("not finite"), HasSubstr("step"),
                    HasSubstr("sequence"), HasSubstr("(epoch 0, batch ")));
}

TEST_F(JobPoliciesTest, LeavesOutWhatIsNotFinite) {
  Put("features", FeatureLines(1e30));
  const std::string id = Submit(kFeatureSpec, "non_finite: SKIP_STEP");
  const Job job = Run(id, "cpu:1,cpu:1");
  ASSERT_EQ(job.state, kSucceeded) << job.cause;
  EXPECT_EQ(job.step, 6);  // 4 batches an epoch, 2 a step
  // One of an epoch's two steps.
  EXPECT_THAT(See(id).warnings, SizeIs(3));
  EXPECT_THAT(See(id).warnings, Each(HasSubstr("is left out")));
  for (const float parameter : Published(job)) {
    EXPECT_TRUE(std::isfinite(parameter));
  }
  // Wherever it is interrupted.
  for (int64_t tick = 2; tick <= 16; ++tick) {
    const std::string other = Submit(kFeatureSpec, "non_finite: SKIP_STEP");
    Run(other, "cpu:1", tick, [](JobControl&) { throw Crash(); });
    const Job again = HasEnded(jobs_->Get(other)->state)
                          ? *jobs_->Get(other)
                          : GoOn(other, "cpu:1,cpu:1");
    ASSERT_EQ(again.state, kSucceeded) << again.cause;
    ASSERT_EQ(Parameters(again), Parameters(job)) << tick;
    ASSERT_EQ(See(other), See(id)) << tick;
  }
}

TEST_F(JobPoliciesTest, GivesUpAfterGoingBackTooOften) {
  Put("features", FeatureLines(1e30));
  const std::string id =
      Submit(kFeatureSpec, "non_finite: ROLL_BACK max_roll_backs: 3");
  const Job job = Run(id, "cpu:1");
  EXPECT_EQ(job.state, kFailed);
  EXPECT_THAT(job.cause, HasSubstr("after going back 3 times"));
  EXPECT_THAT(See(id).warnings, SizeIs(3));
  EXPECT_THAT(See(id).warnings[2], HasSubstr("learning rate times 0.125"));
}

// 2^-1074 is the smallest number above 0.
TEST_F(JobPoliciesTest, GivesUpWhereTheLearningRateCannotBeHalvedAnyMore) {
  Put("features", FeatureLines(1e30));
  const std::string id =
      Submit(kFeatureSpec, "non_finite: ROLL_BACK max_roll_backs: 1000000");
  const Job job = Run(id, "cpu:1");
  EXPECT_EQ(job.state, kFailed);
  EXPECT_THAT(job.cause, AllOf(HasSubstr("after going back 1074 times"),
                               HasSubstr("is not finite in optimizer step")));
}

// With far too high a rate the weights grow without end, until it is halved
// often enough.
TEST_F(JobPoliciesTest, GoesBackWithHalfTheLearningRate) {
  Put("features", FeatureLines(1));
  const std::string changes =
      "trainer { accumulation_steps: 1 learning_rate { peak: 10000 } } "
      "checkpoints { every_steps: 1000 } "
      "max_epochs: 0 max_steps: 18 non_finite: ROLL_BACK max_roll_backs: 100";
  const std::string id = Submit(kFeatureSpec, changes);
  const Job job = Run(id, "cpu:1");
  const int64_t ticks = ticks_;
  ASSERT_EQ(job.state, kSucceeded) << job.cause;
  EXPECT_EQ(job.step, 18);
  const Seen seen = See(id);
  ASSERT_GT(seen.warnings.size(), 1u);
  EXPECT_THAT(seen.warnings, Each(HasSubstr("going back to step 0,")));
  const auto rate = [](const auto& metrics) { return std::get<4>(metrics); };
  EXPECT_EQ(rate(seen.metrics.back()),
            rate(seen.metrics[0]) * std::pow(0.5, seen.warnings.size()));
  EXPECT_GT(seen.metrics.size(), 18u);  // steps come again after a warning
  // A crash does not undo the decision, and repeats nothing.
  for (int64_t tick = 10; tick < ticks; tick += 11) {
    const std::string other = Submit(kFeatureSpec, changes);
    Run(other, "cpu:1", tick, [](JobControl&) { throw Crash(); });
    ASSERT_FALSE(HasEnded(jobs_->Get(other)->state)) << tick;
    ASSERT_EQ(Parameters(GoOn(other, "cpu:1,cpu:1")), Parameters(job)) << tick;
    ASSERT_EQ(See(other), seen) << tick;
  }
}

// --- Files ---

TEST_F(JobPoliciesTest, MetricsFilesFollowTheEvents) {
  const std::string id = Submit(kSequencesSpec);
  ASSERT_EQ(Run(id, "cpu:1").state, kSucceeded);
  const Seen seen = See(id);
  const std::vector<std::string> lines = CsvLines(id);
  ASSERT_EQ(lines.size(), 1 + seen.metrics.size() + seen.evaluations.size());
  EXPECT_THAT(lines[0], HasSubstr("event,time,step,epoch,loss,"));
  const std::vector<std::string> cells = absl::StrSplit(lines[1], ',');
  ASSERT_EQ(cells.size(), 12u);
  EXPECT_EQ(cells[2], "1");
  EXPECT_EQ(std::stod(cells[4]), std::get<2>(seen.metrics[0]));
  EXPECT_EQ(std::stod(cells[5]), std::get<3>(seen.metrics[0]));
  EXPECT_EQ(cells[10], "");
}

// Torn by a crash, they are whole again with the next run.
TEST_F(JobPoliciesTest, MetricsFilesAreWhatTheEventsMakeOfThem) {
  const std::string id =
      Submit(kSequencesSpec, "checkpoints { every_steps: 2 }");
  Run(id, "cpu:1", 20, [](JobControl&) { throw Crash(); });
  std::ofstream(FolderOf(id) + "/metrics.csv", std::ios::app) << "17,20";
  ASSERT_EQ(GoOn(id, "cpu:1").state, kSucceeded);
  const std::string csv = ReadBytes(FolderOf(id) + "/metrics.csv");
  const std::string tensorboard = TensorBoardBytes(id);
  MetricsText text;
  MetricsFormat format(jobs_->Get(id)->create_time, &text);
  const auto events = *jobs_->Events(id, 0, 0);
  for (const JobEvent& event : events) format.Add(event, &text);
  EXPECT_EQ(csv, text.csv);
  EXPECT_EQ(tensorboard, text.tensorboard);
  EXPECT_FALSE(tensorboard.empty());
}

// Files that were written and not synced since.
class UnsyncedFiles final : public FileCalls {
 public:
  ssize_t Write(int fd, const void* bytes, size_t size) override {
    if (size > 0) names_.insert(NameOf(fd));
    return FileCalls::Write(fd, bytes, size);
  }
  int Fsync(int fd) override {
    names_.erase(NameOf(fd));
    return 0;
  }
  const std::set<std::string>& names() const { return names_; }

 private:
  static std::string NameOf(int fd) {
    return std::filesystem::read_symlink(absl::StrCat("/proc/self/fd/", fd));
  }
  std::set<std::string> names_;
};

TEST_F(JobPoliciesTest, MetricsFilesLastOnceTheJobHasEnded) {
  UnsyncedFiles unsynced;
  const ScopedFileCalls scope(unsynced);
  const std::string id = Submit(kSequencesSpec);
  ASSERT_EQ(Run(id, "cpu:1").state, kSucceeded);
  EXPECT_FALSE(TensorBoardBytes(id).empty());
  EXPECT_THAT(unsynced.names(), IsEmpty());
}

TEST_F(JobPoliciesTest, WhatACrashLeftAsideIsSwept) {
  const std::string id = Submit(kSequencesSpec);
  Run(id, "cpu:1", 15, [](JobControl&) { throw Crash(); });
  const std::string half_written = FolderOf(id) + "/.aside-1-2";
  std::ofstream(half_written) << "step,lo";
  EXPECT_EQ(GoOn(id, "cpu:1").state, kSucceeded);
  EXPECT_FALSE(std::filesystem::exists(half_written));
}

// Whichever operation fails, once or for a while, the job ends with the same
// weights, or FAILED with a cause.
TEST_F(JobPoliciesTest, ADiskThatFailsCostsNoBits) {
  const std::string changes =
      "checkpoints { every_steps: 3 } max_epochs: 0 max_steps: 8";
  const Job expected = Run(Submit(kSequencesSpec, changes), "cpu:1");
  ASSERT_EQ(expected.state, kSucceeded) << expected.cause;
  for (int64_t n = 1;; ++n) {
    const std::string id = Submit(kSequencesSpec, changes);
    Faults faults;
    Job job;
    bool came;
    {
      FaultFileCalls calls(faults);
      faults.FailAt(n, ENOSPC);
      job = Run(id, "cpu:1");
      came = faults.Disarm();
    }
    SCOPED_TRACE(faults.where());
    if (job.state == kFailed) {
      EXPECT_THAT(job.cause, HasSubstr("RESOURCE_EXHAUSTED"));
      EXPECT_LT(n, 10);  // before there is a folder
    } else {
      ASSERT_EQ(job.state, kSucceeded) << job.cause;
      ASSERT_EQ(Parameters(job), Parameters(expected));
      ASSERT_EQ(See(id).metrics, See(expected.id).metrics);
    }
    if (!came) break;
  }
}

TEST_F(JobPoliciesTest, TrainsOnWithAFullDisk) {
  const std::string id =
      Submit(kSequencesSpec,
             "checkpoints { every_steps: 3 } max_epochs: 0 "
             "max_steps: 8 validation { every_steps: 1000 }");
  Faults faults;
  Job job;
  {
    FaultFileCalls calls(faults);
    // From the first checkpoint on.
    job = Run(id, "cpu:1", 3, [&](JobControl&) {
      faults.FailAt(1, ENOSPC, Faults::kFromThen);
    });
    faults.Disarm();
  }
  ASSERT_EQ(job.state, kSucceeded) << job.cause;
  EXPECT_EQ(job.checkpoint_step, 0);
  const std::vector<std::string> warnings = See(id).warnings;
  ASSERT_FALSE(warnings.empty());
  int missed = 0;
  for (const std::string& warning : warnings) {
    missed += absl::StrContains(warning, "no checkpoint of step ");
  }
  EXPECT_GE(missed, 3);
}

}  // namespace
}  // namespace recurve
