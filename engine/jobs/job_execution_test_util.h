// Jobs run in this process, interrupted and gone on with, for tests.
#ifndef RECURVE_ENGINE_JOBS_JOB_EXECUTION_TEST_UTIL_H_
#define RECURVE_ENGINE_JOBS_JOB_EXECUTION_TEST_UTIL_H_

#include <atomic>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/jobs/job_execution.h"
#include "engine/train/checkpoint_folder.h"
#include "engine/train/fake_model_exchange.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace recurve {

// How a test ends the process, as far as the job can tell: not an exception
// that anything catches.
struct Crash {};

inline constexpr char kTextSpec[] = R"(
    model: 'models/m'
    config {
      input { token_embedding { embedding_size: 4 } }
      blocks { sru { hidden_size: 6 num_layers: 2 dropout: 0.1 } }
      output { linear {} }
      loss { kind: CROSS_ENTROPY }
    }
    data { dataset: 'datasets/text' }
    format { text {} }
    loader { batch_size: 3 unroll: 7 }
    trainer {
      optimizer { adam {} }
      learning_rate { peak: 0.01 }
      accumulation_steps: 3
      micro_batch_rows: 8
      seed: 5
    }
    max_epochs: 4
    held_out_characters: 10
    report_every_steps: 2
    validation { fraction: 0.2 every_steps: 3 })";

inline constexpr char kSequencesSpec[] = R"(
    model: 'models/m'
    config {
      input { token_embedding { embedding_size: 4 } }
      blocks { qrnn { hidden_size: 6 window: 2 zoneout: 0.1 } }
      output { linear {} pooling: POOLING_LAST }
      loss { kind: CROSS_ENTROPY }
    }
    data { dataset: 'datasets/lines' }
    format { json_lines {} }
    loader { batch_size: 4 }
    trainer {
      optimizer { adamw { weight_decay: 0.1 } }
      learning_rate { peak: 0.02 warmup_cosine { warmup_steps: 3 total_steps: 20 } }
      accumulation_steps: 2
      micro_batch_rows: 8
      seed: 7
    }
    max_epochs: 5
    report_every_steps: 1
    validation { source { dataset: 'datasets/other' } every_steps: 4 })";

inline std::string Lines(int count, int seed) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    const int x = i * 7 + seed;
    absl::StrAppend(&lines, "{\"tokens\": [", x % 5, ", ", x % 3, ", ", x % 4,
                    i % 2 ? ", 1, 2" : "", "], \"label\": ", x % 3, "}\n");
  }
  return lines;
}

// All that a watcher must see alike, whatever interrupted the run.
struct Seen {
  std::vector<std::tuple<int64_t, int64_t, double, double, double, double>>
      metrics;
  std::vector<std::tuple<int64_t, double, double>> evaluations;
  std::vector<std::string> warnings;

  bool operator==(const Seen&) const = default;
};

class JobExecutionFixture : public ::testing::Test {
 protected:
  JobExecutionFixture()
      : folder_(absl::StrCat(
            ::testing::TempDir(), "/job_execution_",
            ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(folder_);
    DatasetStore::Options options;
    options.directory = folder_ + "/datasets";
    datasets_ = *DatasetStore::Open(options);
    std::string text;
    for (int i = 0; i < 40; ++i) absl::StrAppend(&text, "ab", i % 7, " ");
    Put("text", text);
    Put("lines", Lines(22, 0));
    Put("other", Lines(9, 1));
  }

  void Put(const std::string& id, const std::string& bytes) {
    (void)datasets_->Delete(id);
    auto upload = *datasets_->StartUpload(id, "");
    ASSERT_TRUE(upload->Append(bytes).ok());
    ASSERT_TRUE(upload->Commit().ok());
  }

  // `changes` are merged into the spec.
  std::string Submit(const std::string& spec, const std::string& changes = "") {
    JobRequest request;
    google::protobuf::TextFormat::Parser parser;
    EXPECT_TRUE(parser.ParseFromString(spec, &request.spec));
    EXPECT_TRUE(parser.MergeFromString(changes, &request.spec)) << changes;
    bool created;
    const auto job = jobs_->Create(request, &created);
    EXPECT_TRUE(job.ok()) << job.status();
    return job->id;
  }

  // One run on these devices. The clock goes on by a second each time it is
  // read; `at_tick` runs when it is read for the `tick`-th time.
  Job Run(const std::string& id, const std::string& devices, int64_t tick = 0,
          std::function<void(JobControl&)> at_tick = nullptr) {
    DevicePool pool(*ParseDevices(devices));
    return RunOn(pool, id, tick, std::move(at_tick));
  }
  Job RunOn(DevicePool& pool, const std::string& id, int64_t tick = 0,
            std::function<void(JobControl&)> at_tick = nullptr) {
    JobControl control;
    ticks_ = 0;
    JobEnvironment environment{pool,
                               *jobs_,
                               *datasets_,
                               models_,
                               {evaluate_, evaluation_plans_},
                               1'000'000,
                               folder_ + "/jobs"};
    environment.max_evaluation_rows = max_evaluation_rows_;
    environment.retry_delay = absl::ZeroDuration();
    environment.clock = [&] {
      if (++ticks_ == tick) at_tick(control);
      return absl::Seconds(now_++);
    };
    const auto job = jobs_->SetState(id, JobState::kValidating, "");
    EXPECT_TRUE(job.ok()) << job.status();
    try {
      ExecuteJob(environment, *job, control);
    } catch (const Crash&) {
    }
    return *jobs_->Get(id);
  }
  void Queue(const std::string& id) {
    const Job job = *jobs_->Get(id);
    ASSERT_TRUE(jobs_->SetState(id, JobState::kQueued, "").ok())
        << JobStateName(job.state) << ": " << job.cause;
  }
  // Whatever ended the run before, it goes on as after a restart.
  Job GoOn(const std::string& id, const std::string& devices) {
    Queue(id);
    return Run(id, devices);
  }

  std::string Parameters(const Job& job) {
    const auto model = models_.Load(job.model_version);
    EXPECT_TRUE(model.ok()) << job.cause;
    if (!model.ok()) return "";
    return std::string(reinterpret_cast<const char*>(model->parameters.data()),
                       model->parameters.size() * sizeof(float));
  }
  Seen See(const std::string& id) {
    Seen seen;
    const auto events = *jobs_->Events(id, 0, 0);
    for (const JobEvent& event : events) {
      if (const auto* m = std::get_if<JobMetrics>(&event.what)) {
        seen.metrics.emplace_back(m->step, m->epoch, m->loss, m->gradient_norm,
                                  m->learning_rate, m->fraction_done);
      } else if (const auto* e = std::get_if<JobEvaluation>(&event.what)) {
        seen.evaluations.emplace_back(e->step, e->loss, e->accuracy);
      } else if (const auto* w = std::get_if<JobWarning>(&event.what)) {
        seen.warnings.push_back(w->text);
      }
    }
    return seen;
  }
  std::string FolderOf(const std::string& id) {
    return absl::StrCat(folder_, "/jobs/", id);
  }
  std::vector<CheckpointInfo> Checkpoints(const std::string& id) {
    return CheckpointFolder::Open(FolderOf(id) + "/checkpoints")->list();
  }
  std::string ReadBytes(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  void Pause(const std::string& id, JobControl& control) {
    ASSERT_TRUE(
        jobs_->SetState(id, JobState::kPausing, "paused on request").ok());
    control.Stop(StopRequest::kPause);
  }

  const std::string folder_;
  std::unique_ptr<DatasetStore> datasets_;
  std::unique_ptr<JobStore> jobs_ = *JobStore::Open(":memory:");
  FakeModelExchange models_;
  // A function of weights and data; not of how often it is asked.
  HeldOutEvaluator evaluate_ =
      [](const TrainableModel& model, const Dataset& data, const HeldMemory*,
         const std::atomic<bool>& cancelled) -> absl::StatusOr<JobEvaluation> {
    if (cancelled) return absl::CancelledError("");
    JobEvaluation evaluation;
    for (const float parameter : model.parameters) {
      evaluation.loss += std::abs(parameter);
    }
    evaluation.accuracy = static_cast<double>(data.index());
    return evaluation;
  };
  HeldOutPlans evaluation_plans_;
  int64_t max_evaluation_rows_ = 1000;
  int64_t ticks_ = 0;
  int64_t now_ = 0;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_JOBS_JOB_EXECUTION_TEST_UTIL_H_
