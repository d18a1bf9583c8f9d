#include "engine/jobs/job.h"

#include <map>
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
      {kValidating, kQueued},     {kValidating, kSucceeded},
      {kRunning, kPausing},       {kRunning, kCancelling},
      {kRunning, kSucceeded},     {kRunning, kFailed},
      {kRunning, kQueued},        {kPausing, kPaused},
      {kPausing, kValidating},    {kPausing, kCancelling},
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

TEST(JobState, ARestartLeavesJobsThatWaitOrHaveEnded) {
  for (JobState state : kJobStates) {
    const JobState after = AfterRestart(state);
    EXPECT_TRUE(after == state || MayFollow(state, after))
        << JobStateName(state);
    EXPECT_TRUE(after == kQueued || after == kPaused || HasEnded(after))
        << JobStateName(state);
    EXPECT_EQ(AfterRestart(after), after) << JobStateName(state);
  }
}

// Every answer to every request, written out a second time; what is not here is
// refused.
TEST(JobState, RequestsLeadWhereTheyShould) {
  using Key = std::pair<JobChange, JobState>;
  const std::map<Key, JobState> expected = {
      {{JobChange::kPause, kQueued}, kPaused},
      {{JobChange::kPause, kValidating}, kPausing},
      {{JobChange::kPause, kRunning}, kPausing},
      {{JobChange::kPause, kPausing}, kPausing},
      {{JobChange::kPause, kPaused}, kPaused},
      {{JobChange::kResume, kPausing}, kValidating},
      {{JobChange::kResume, kPaused}, kQueued},
      {{JobChange::kCancel, kQueued}, kCancelled},
      {{JobChange::kCancel, kValidating}, kCancelling},
      {{JobChange::kCancel, kRunning}, kCancelling},
      {{JobChange::kCancel, kPausing}, kCancelling},
      {{JobChange::kCancel, kPaused}, kCancelled},
      {{JobChange::kCancel, kCancelling}, kCancelling},
      {{JobChange::kCancel, kCancelled}, kCancelled},
      {{JobChange::kCancel, kSucceeded}, kSucceeded},
      {{JobChange::kCancel, kFailed}, kFailed},
  };
  for (JobChange change :
       {JobChange::kPause, JobChange::kResume, JobChange::kCancel}) {
    for (JobState from : kJobStates) {
      const auto to = AfterRequest(from, change);
      const auto at = expected.find({change, from});
      ASSERT_EQ(to.ok(), at != expected.end()) << JobStateName(from);
      if (!to.ok()) {
        EXPECT_EQ(to.status().code(), absl::StatusCode::kFailedPrecondition);
        continue;
      }
      EXPECT_EQ(*to, at->second) << JobStateName(from);
      EXPECT_TRUE(*to == from || MayFollow(from, *to)) << JobStateName(from);
    }
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
