#include "engine/train/job.h"

#include <set>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace recurve {
namespace {

using enum JobState;

// Every legal transition, written out a second time.
const std::set<std::pair<JobState, JobState>>& Legal() {
  static const auto* legal = new std::set<std::pair<JobState, JobState>>{
      {kQueued, kValidating},     {kQueued, kPaused},
      {kQueued, kCancelled},      {kQueued, kFailed},
      {kValidating, kRunning},    {kValidating, kPausing},
      {kValidating, kCancelling}, {kValidating, kFailed},
      {kValidating, kQueued},     {kRunning, kPausing},
      {kRunning, kCancelling},    {kRunning, kSucceeded},
      {kRunning, kFailed},        {kRunning, kQueued},
      {kPausing, kPaused},        {kPausing, kCancelling},
      {kPausing, kSucceeded},     {kPausing, kFailed},
      {kPaused, kQueued},         {kPaused, kCancelled},
      {kPaused, kFailed},         {kCancelling, kCancelled},
      {kCancelling, kSucceeded},  {kCancelling, kFailed},
  };
  return *legal;
}

TEST(JobState, TheTableAllowsExactlyTheLegalTransitions) {
  for (JobState from : kJobStates) {
    for (JobState to : kJobStates) {
      EXPECT_EQ(MayFollow(from, to), Legal().count({from, to}) == 1)
          << JobStateName(from) << " to " << JobStateName(to);
    }
  }
}

TEST(JobState, ThreeStatesEndAJob) {
  for (JobState state : kJobStates) {
    const bool ends =
        state == kCancelled || state == kSucceeded || state == kFailed;
    EXPECT_EQ(HasEnded(state), ends) << JobStateName(state);
  }
}

// From everywhere a job can be brought to an end.
TEST(JobState, EveryStateLeadsToAnEnd) {
  for (JobState state : kJobStates) {
    bool ends = HasEnded(state);
    for (JobState to : kJobStates) ends |= MayFollow(state, to) && HasEnded(to);
    EXPECT_TRUE(ends || MayFollow(state, kCancelling)) << JobStateName(state);
  }
}

TEST(JobState, NamesAreDistinct) {
  std::set<std::string> names;
  for (JobState state : kJobStates) {
    names.insert(std::string(JobStateName(state)));
  }
  EXPECT_EQ(names.size(), 9u);
}

}  // namespace
}  // namespace recurve
