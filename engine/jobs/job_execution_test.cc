// Runs interrupted at every place end as if nothing had been.
#include "engine/jobs/job_execution.h"

#include <cstdint>
#include <functional>
#include <string>

#include "engine/jobs/job_execution_test_util.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using enum JobState;

class JobExecutionTest : public JobExecutionFixture {
 protected:
  // Interrupts the spec's run in the way given at each reading of the clock;
  // every time it ends as if nothing had been.
  void ExpectSurvives(
      const std::string& spec, const std::string& changes,
      const std::function<void(const std::string&, JobControl&)>& interrupt) {
    const std::string undisturbed = Submit(spec, changes);
    const Job expected = Run(undisturbed, "cpu:1");
    const int64_t ticks = ticks_;
    ASSERT_EQ(expected.state, kSucceeded) << expected.cause;
    const std::string parameters = Parameters(expected);
    const Seen seen = See(undisturbed);
    ASSERT_GT(seen.metrics.size(), 3u);
    ASSERT_GT(ticks, 20);
    int64_t interrupted = 0;
    for (int64_t tick = 2; tick <= ticks; ++tick) {
      SCOPED_TRACE(tick);
      const std::string id = Submit(spec, changes);
      Run(id, "cpu:1,cpu:1", tick,
          [&](JobControl& control) { interrupt(id, control); });
      interrupted += !HasEnded(jobs_->Get(id)->state);
      // A second interruption, elsewhere.
      if (!HasEnded(jobs_->Get(id)->state)) {
        Queue(id);
        Run(id, "cpu:1", 5 + tick % 7,
            [&](JobControl& control) { interrupt(id, control); });
      }
      Job job = *jobs_->Get(id);
      if (!HasEnded(job.state)) job = GoOn(id, "cpu:1,cpu:1,cpu:1");
      ASSERT_EQ(job.state, kSucceeded) << job.cause;
      ASSERT_EQ(Parameters(job), parameters);
      ASSERT_EQ(See(id), seen);
      ASSERT_EQ(job.cause, expected.cause);
      ASSERT_EQ(job.held_out_loss, expected.held_out_loss);
      ASSERT_EQ(job.loss, expected.loss);
      ASSERT_EQ(job.best.has_value(), expected.best.has_value());
      if (job.best) {
        ASSERT_EQ(job.best->step, expected.best->step);
      }
    }
    // A pause that comes after the last batch comes too late.
    EXPECT_GT(interrupted, ticks - 10);
  }
};

TEST_F(JobExecutionTest, APauseAnywhereChangesNothing) {
  const auto pause = [this](const std::string& id, JobControl& control) {
    Pause(id, control);
  };
  ExpectSurvives(kTextSpec, "", pause);
  ExpectSurvives(kSequencesSpec,
                 "checkpoints { every_steps: 2 every_seconds: "
                 "1000000000 }",
                 pause);
}

TEST_F(JobExecutionTest, ACrashAnywhereChangesNothing) {
  const auto crash = [](const std::string&, JobControl&) { throw Crash(); };
  ExpectSurvives(kTextSpec, "checkpoints { every_seconds: 9 }", crash);
  ExpectSurvives(kSequencesSpec,
                 "checkpoints { every_steps: 2 every_seconds: "
                 "1000000000 }",
                 crash);
}

}  // namespace
}  // namespace recurve
