#include "tests/pressure/session_history.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/status.h"

namespace recurve::pressure {
namespace {

using Kind = Operation::Kind;
using Outcome = Operation::Outcome;

int64_t Rows(const Operation& operation) {
  return static_cast<int64_t>(operation.tokens.size());
}

// The state after an operation that found `state` and was applied.
SessionState After(SessionState state, const Operation& operation) {
  if (operation.kind == Kind::kMove) {
    if (state.segments.back().version != operation.version) {
      state.segments.push_back({operation.version, {}});
    }
    return state;
  }
  std::vector<int32_t>& tokens = state.segments.back().tokens;
  tokens.insert(tokens.end(), operation.tokens.begin(), operation.tokens.end());
  state.last_position = state.position;
  state.position += Rows(operation);
  state.ended = operation.end;
  return state;
}

bool CanApply(const SessionState& state, const Operation& operation) {
  return !state.ended && (operation.kind == Kind::kMove ||
                          state.position == operation.position);
}

// Whether `operation` is the last request of the state, made again.
bool IsRepeated(const SessionState& state, const Operation& operation) {
  const std::vector<int32_t>& tokens = state.segments.back().tokens;
  return operation.kind == Kind::kPredict && !state.ended &&
         state.last_position == operation.position &&
         state.position == operation.position + Rows(operation) &&
         tokens.size() >= operation.tokens.size() &&
         std::equal(operation.tokens.rbegin(), operation.tokens.rend(),
                    tokens.rbegin());
}

void AddNew(SessionState state, std::vector<SessionState>& states) {
  if (std::find(states.begin(), states.end(), state) == states.end()) {
    states.push_back(std::move(state));
  }
}

// With any of `pending` applied that can be, in any order.
std::vector<SessionState> WithPending(std::vector<SessionState> states,
                                      const std::vector<Operation>& pending) {
  for (size_t i = 0; i < states.size(); ++i) {
    for (const Operation& operation : pending) {
      if (!CanApply(states[i], operation)) continue;
      AddNew(After(states[i], operation), states);
    }
  }
  return states;
}

// The states that are left of `states`, by what the operation was answered.
std::vector<SessionState> Survivors(const std::vector<SessionState>& states,
                                    const Operation& operation) {
  std::vector<SessionState> left;
  for (const SessionState& state : states) {
    switch (operation.outcome) {
      case Outcome::kDone:
        if (operation.kind == Kind::kPosition) {
          if (!state.ended && state.position == operation.position) {
            AddNew(state, left);
          }
          break;
        }
        if (CanApply(state, operation)) {
          AddNew(After(state, operation), left);
        } else if (IsRepeated(state, operation)) {
          AddNew(state, left);
        }
        break;
      case Outcome::kWrongPosition:
        if (!state.ended && state.position != operation.position) {
          AddNew(state, left);
        }
        break;
      case Outcome::kNotFound:
        if (state.ended) AddNew(state, left);
        break;
      case Outcome::kRefused:
      case Outcome::kUnknown:
        AddNew(state, left);
        break;
    }
  }
  return left;
}

std::string Describe(const Operation& operation) {
  static constexpr const char* kKinds[] = {"a prediction", "its position",
                                           "a move"};
  static constexpr const char* kOutcomes[] = {
      "done", "refused", "at another position", "not found", "unknown"};
  return absl::StrCat(kKinds[static_cast<int>(operation.kind)], " of ",
                      Rows(operation), " rows at ", operation.position,
                      ", which was ",
                      kOutcomes[static_cast<int>(operation.outcome)]);
}

std::string Describe(const std::vector<SessionState>& states) {
  std::string text;
  for (const SessionState& state : states) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", state.position,
                    state.ended ? " (ended)" : "");
  }
  return text;
}

}  // namespace

bool operator==(const Segment& a, const Segment& b) {
  return a.version == b.version && a.tokens == b.tokens;
}

bool operator==(const SessionState& a, const SessionState& b) {
  return a.segments == b.segments && a.position == b.position &&
         a.last_position == b.last_position && a.ended == b.ended;
}

SessionHistory::SessionHistory(const std::string& version)
    : initial_({{{{version, {}}}, 0, -1, false}}) {}

SessionHistory::SessionHistory(std::vector<SessionState> states)
    : initial_(std::move(states)) {}

absl::StatusOr<std::vector<SessionState>> SessionHistory::PossibleStates()
    const {
  std::vector<SessionState> states = initial_;
  std::vector<Operation> pending;
  for (size_t i = 0; i < operations_.size(); ++i) {
    const Operation& operation = operations_[i];
    const std::vector<SessionState> before = WithPending(states, pending);
    states = Survivors(before, operation);
    if (states.empty()) {
      return absl::AbortedError(absl::StrCat(
          "operation ", i, ", ", Describe(operation),
          ", cannot be: the session could be at ", Describe(before)));
    }
    if (operation.outcome == Outcome::kUnknown) pending.push_back(operation);
  }
  return WithPending(std::move(states), pending);
}

absl::Status SessionHistory::CheckOutputs(const std::vector<float>& expected,
                                          int64_t rows, float tolerance) const {
  const int64_t columns = static_cast<int64_t>(expected.size()) / rows;
  for (const Operation& operation : operations_) {
    if (operation.kind != Kind::kPredict ||
        operation.outcome != Outcome::kDone) {
      continue;
    }
    const int64_t end = operation.position + Rows(operation);
    if (operation.reply_position != end ||
        static_cast<int64_t>(operation.outputs.size()) !=
            Rows(operation) * columns ||
        end > rows) {
      return absl::AbortedError(absl::StrCat(
          Describe(operation), ": its reply is at ", operation.reply_position,
          " with ", operation.outputs.size(), " numbers of ", columns,
          " columns"));
    }
    for (size_t k = 0; k < operation.outputs.size(); ++k) {
      const float want = expected[operation.position * columns + k];
      if (std::abs(operation.outputs[k] - want) <= tolerance) continue;
      return absl::AbortedError(absl::StrCat(Describe(operation), ": number ",
                                             k, " is ", operation.outputs[k],
                                             ", offline it is ", want));
    }
  }
  return absl::OkStatus();
}

absl::Status SessionHistory::Check(const Offline& offline,
                                   float tolerance) const {
  ASSIGN_OR_RETURN(const std::vector<SessionState> states, PossibleStates());
  absl::Status difference = absl::AbortedError("no state is possible");
  for (const SessionState& state : states) {
    if (state.position == 0) return absl::OkStatus();  // nothing was answered
    ASSIGN_OR_RETURN(const std::vector<float> expected,
                     offline(state.segments));
    difference = CheckOutputs(expected, state.position, tolerance);
    if (difference.ok()) return difference;
  }
  return difference;
}

}  // namespace recurve::pressure
