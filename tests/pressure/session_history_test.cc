#include "tests/pressure/session_history.h"

#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve::pressure {
namespace {

using Kind = Operation::Kind;
using Outcome = Operation::Outcome;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// A model whose output is the sum of its inputs so far, in hundreds of the
// version's length.
absl::StatusOr<std::vector<float>> RunningSums(
    const std::vector<Segment>& segments) {
  std::vector<float> sums;
  float sum = 0;
  for (const Segment& segment : segments) {
    for (const int32_t token : segment.tokens) {
      sum += static_cast<float>(token) +
             100 * static_cast<float>(segment.version.size());
      sums.push_back(sum);
    }
  }
  return sums;
}

Operation Predict(int64_t position, std::vector<int32_t> tokens,
                  Outcome outcome, std::vector<float> outputs = {}) {
  Operation operation;
  operation.position = position;
  operation.reply_position = position + static_cast<int64_t>(tokens.size());
  operation.tokens = std::move(tokens);
  operation.outcome = outcome;
  operation.outputs = std::move(outputs);
  return operation;
}

Operation At(int64_t position) {
  Operation operation;
  operation.kind = Kind::kPosition;
  operation.position = position;
  return operation;
}

std::vector<int64_t> Positions(const SessionHistory& history) {
  std::vector<int64_t> positions;
  const auto states = history.PossibleStates();
  if (!states.ok()) return positions;
  for (const SessionState& state : *states) positions.push_back(state.position);
  return positions;
}

TEST(SessionHistoryTest, AnswersInOrderAreTheOfflineRuns) {
  SessionHistory history("v");
  history.Add(Predict(0, {1, 2}, Outcome::kDone, {101, 203}));
  history.Add(Predict(2, {3}, Outcome::kDone, {306}));
  EXPECT_TRUE(history.Check(RunningSums, 0).ok());
}

TEST(SessionHistoryTest, AWrongNumberIsFound) {
  SessionHistory history("v");
  history.Add(Predict(0, {1, 2}, Outcome::kDone, {101, 203}));
  history.Add(Predict(2, {3}, Outcome::kDone, {305}));
  EXPECT_THAT(std::string(history.Check(RunningSums, 0.5).message()),
              HasSubstr("is 305, offline it is 306"));
}

TEST(SessionHistoryTest, AnUnknownRequestMayOrMayNotHaveBeenApplied) {
  SessionHistory history("v");
  history.Add(Predict(0, {1, 2}, Outcome::kUnknown));
  EXPECT_THAT(Positions(history), UnorderedElementsAre(0, 2));
  history.Add(At(2));
  EXPECT_THAT(Positions(history), ElementsAre(2));
  history.Add(Predict(2, {3}, Outcome::kDone, {306}));
  EXPECT_TRUE(history.Check(RunningSums, 0).ok());
}

TEST(SessionHistoryTest, AnUnknownRequestMayBeAppliedLater) {
  SessionHistory history("v");
  history.Add(Predict(0, {1, 2}, Outcome::kUnknown));
  history.Add(At(0));
  history.Add(Predict(0, {7}, Outcome::kWrongPosition));
  EXPECT_THAT(Positions(history), ElementsAre(2));
}

TEST(SessionHistoryTest, HalfARequestIsNotAllowed) {
  SessionHistory history("v");
  history.Add(Predict(0, {1, 2}, Outcome::kUnknown));
  history.Add(At(1));
  EXPECT_THAT(Positions(history), IsEmpty());
}

TEST(SessionHistoryTest, ARequestMadeAgainIsNotAppliedTwice) {
  SessionHistory history("v");
  history.Add(Predict(0, {1, 2}, Outcome::kUnknown));
  history.Add(Predict(0, {1, 2}, Outcome::kDone, {101, 203}));
  EXPECT_THAT(Positions(history), ElementsAre(2));
  history.Add(Predict(0, {1, 2}, Outcome::kDone, {101, 203}));
  EXPECT_THAT(Positions(history), ElementsAre(2));
}

TEST(SessionHistoryTest, AnotherInputAtAnOldPositionIsNotTheSameRequest) {
  SessionHistory history("v");
  history.Add(Predict(0, {1, 2}, Outcome::kDone, {101, 203}));
  history.Add(Predict(0, {1, 3}, Outcome::kDone, {101, 204}));
  EXPECT_THAT(Positions(history), IsEmpty());
}

TEST(SessionHistoryTest, OutputsDecideBetweenUnknownRequests) {
  SessionHistory history("v");
  history.Add(Predict(0, {1}, Outcome::kUnknown));
  history.Add(Predict(0, {2}, Outcome::kUnknown));
  history.Add(Predict(1, {3}, Outcome::kDone, {205}));
  EXPECT_TRUE(history.Check(RunningSums, 0).ok());
}

TEST(SessionHistoryTest, ARefusedRequestChangesNothing) {
  SessionHistory history("v");
  history.Add(Predict(0, {1}, Outcome::kRefused));
  history.Add(At(1));
  EXPECT_THAT(Positions(history), IsEmpty());
}

TEST(SessionHistoryTest, ASessionIsGoneOnlyAfterAnEnd) {
  SessionHistory history("v");
  Operation end = Predict(0, {1}, Outcome::kUnknown);
  end.end = true;
  history.Add(end);
  history.Add(Predict(0, {1}, Outcome::kNotFound));
  EXPECT_THAT(Positions(history), ElementsAre(1));

  SessionHistory kept("v");
  kept.Add(Predict(0, {1}, Outcome::kNotFound));
  EXPECT_THAT(Positions(kept), IsEmpty());
}

TEST(SessionHistoryTest, AMoveGoesOnWithAnotherVersion) {
  SessionHistory history("v");
  history.Add(Predict(0, {1}, Outcome::kDone, {101}));
  Operation move;
  move.kind = Kind::kMove;
  move.version = "vv";
  history.Add(move);
  history.Add(Predict(1, {1}, Outcome::kDone, {302}));
  EXPECT_TRUE(history.Check(RunningSums, 0).ok());
}

TEST(SessionHistoryTest, AForkGoesOnFromItsParentsStates) {
  SessionHistory parent("v");
  parent.Add(Predict(0, {1}, Outcome::kDone, {101}));
  SessionHistory fork(parent.PossibleStates().value());
  fork.Add(Predict(1, {2}, Outcome::kDone, {203}));
  EXPECT_TRUE(fork.Check(RunningSums, 0).ok());
}

}  // namespace
}  // namespace recurve::pressure
