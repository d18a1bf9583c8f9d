// Jobs that are evaluated, on devices with just enough memory, beside models
// that are served all the time.
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/jobs/job_execution_test_util.h"
#include "engine/model/executor_test_util.h"
#include "engine/schedule/device_spec.h"
#include "engine/schedule/memory_plan.h"
#include "engine/serve/held_out_evaluation.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using enum JobState;
using ::testing::HasSubstr;

std::string Cpu(int64_t bytes) {
  return absl::StrCat("cpu:1:memory=", WorkspacePlan(1).total() + bytes);
}

class EvaluatedJobTest : public JobExecutionFixture {
 protected:
  // A job on these devices, while `client` uses the runner. Most that jobs
  // reserved on the first device: `reserved_`.
  Job RunEvaluated(const std::string& devices,
                   const std::function<void(BatchRunner&)>& client = nullptr) {
    DevicePool pool(*ParseDevices(devices));
    BatchRunner runner(pool, {.max_batch_rows = 8});
    HeldOut held_out = EvaluateHeldOut(runner);
    evaluate_ = held_out.evaluate;
    evaluation_plans_ = held_out.plans;
    std::thread thread;
    if (client) thread = std::thread([&] { client(runner); });
    const Job job = RunOn(pool, Submit(kTextSpec));
    ended_ = true;
    if (thread.joinable()) thread.join();
    for (int rank = 0; rank < pool.size(); ++rank) {
      const LedgerSnapshot snapshot = pool.device(rank).ledger().Snapshot();
      if (snapshot.budget_bytes > 0) {
        EXPECT_LE(snapshot.reserved_high_water, snapshot.budget_bytes);
      }
      if (rank == 0) {
        reserved_ = snapshot.reserved_high_water - WorkspacePlan(1).total();
      }
    }
    return job;
  }

  std::atomic<bool> ended_ = false;
  int64_t reserved_ = 0;
};

TEST_F(EvaluatedJobTest, SucceedsWhereItJustFitsWhateverIsServed) {
  const Job alone = RunEvaluated("cpu:1");
  ASSERT_EQ(alone.state, kSucceeded) << alone.cause;
  const int64_t enough = reserved_;

  const TestExecutor e(R"(
      input { token_embedding { vocabulary_size: 17 embedding_size: 9 } }
      blocks { sru { hidden_size: 12 } }
      output { linear { size: 7 } }
      loss { kind: CROSS_ENTROPY })");
  std::vector<ModelHandle> versions;
  for (int i = 0; i < 4; ++i) {
    versions.push_back(ModelVersion::InMemory(
        *Model::Create(e.model().config()), e.parameters()));
  }
  int64_t served = 0, refused = 0;
  ended_ = false;
  const Job crowded = RunEvaluated(Cpu(enough), [&](BatchRunner& runner) {
    // Once at least, should the job end before this thread begins.
    for (size_t i = 0; i == 0 || !ended_; ++i) {
      BatchRun run;
      run.version = versions[i % versions.size()];
      run.batch = RandomBatch(*run.version->model, {3, 20}, 1);
      run.consume = [](const ChunkRows&) { return absl::OkStatus(); };
      const absl::Status status = runner.RunAndWait(std::move(run)).status();
      ++(status.ok() ? served : refused);
      EXPECT_TRUE(status.ok() || absl::IsResourceExhausted(status)) << status;
    }
  });
  EXPECT_EQ(crowded.state, kSucceeded) << crowded.cause;
  EXPECT_GT(served + refused, 0);
  EXPECT_EQ(Parameters(crowded), Parameters(alone));
  EXPECT_EQ(crowded.held_out_loss, alone.held_out_loss);
  EXPECT_EQ(crowded.best->loss, alone.best->loss);
}

// Smaller passes, another device, or fewer devices to train on.
TEST_F(EvaluatedJobTest, EvaluatesWhereThereIsRoom) {
  const Job alone = RunEvaluated("cpu:1");
  const int64_t enough = reserved_;
  Job job = RunEvaluated(Cpu(enough - 1));
  EXPECT_EQ(job.state, kSucceeded) << job.cause;
  EXPECT_LT(reserved_, enough - 1);
  EXPECT_EQ(job.held_out_loss, alone.held_out_loss);
  EXPECT_EQ(job.best->loss, alone.best->loss);

  // The least that a device can be evaluated on, found by asking.
  int64_t least = 0;
  for (int64_t step = enough; step > 0; step /= 2) {
    const Job tried = RunEvaluated(Cpu(least + step));
    if (tried.state == kFailed) {
      EXPECT_THAT(tried.cause, HasSubstr("training needs "));
      least += step;
    }
  }
  job = RunEvaluated(Cpu(least + 1));
  EXPECT_EQ(job.state, kSucceeded) << job.cause;
  EXPECT_EQ(Parameters(job), Parameters(alone));
  EXPECT_EQ(job.held_out_loss, alone.held_out_loss);
  job = RunEvaluated(absl::StrCat(Cpu(least), ",", Cpu(least)));
  EXPECT_EQ(job.state, kSucceeded) << job.cause;
  EXPECT_EQ(Parameters(job), Parameters(alone));
  EXPECT_EQ(job.held_out_loss, alone.held_out_loss);

  job = RunEvaluated(Cpu(least));
  EXPECT_EQ(job.state, kFailed);
  EXPECT_THAT(job.cause, HasSubstr("RESOURCE_EXHAUSTED"));
  EXPECT_THAT(job.cause, HasSubstr("for the job's evaluations"));
}

}  // namespace
}  // namespace recurve
