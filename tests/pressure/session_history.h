// What was asked of a session and what was answered, and whether the answers
// can be those of a server that keeps a session as it promises: after each
// request its state is as before it or as after all of its rows, and no other.
//
// The model of a session is simple: the inputs that it has had. A request whose
// outcome its client does not know (cancelled, cut off, too late) may have been
// applied at once, may be later, or never; so there are several possible states
// until an answer decides.
#ifndef RECURVE_TESTS_PRESSURE_SESSION_HISTORY_H_
#define RECURVE_TESTS_PRESSURE_SESSION_HISTORY_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace recurve::pressure {

// Inputs that one model version has run.
struct Segment {
  std::string version;
  std::vector<int32_t> tokens;
};
bool operator==(const Segment& a, const Segment& b);

struct SessionState {
  std::vector<Segment> segments;
  int64_t position = 0;
  // Where the last request began: it may be made again. -1: none yet.
  int64_t last_position = -1;
  bool ended = false;
};
bool operator==(const SessionState& a, const SessionState& b);

struct Operation {
  enum class Kind {
    kPredict,   // `tokens` at `position`, and maybe the end
    kPosition,  // is at `position`: asked for, or of a snapshot
    kMove,      // to `version`
  };
  enum class Outcome {
    kDone,
    kRefused,        // and so not applied
    kWrongPosition,  // refused since the session is not at `position`
    kNotFound,       // there is no such session
    kUnknown,
  };
  Kind kind = Kind::kPredict;
  Outcome outcome = Outcome::kDone;
  int64_t position = 0;
  std::vector<int32_t> tokens;
  bool end = false;
  std::string version;
  int64_t reply_position = 0;  // of a prediction that is done
  std::vector<float> outputs;  // and its rows
};

// Of one session. Not thread-safe.
class SessionHistory {
 public:
  // A session that has just been started on `version`, or, given `states`, one
  // in one of those states: a fork's, a restored snapshot's.
  explicit SessionHistory(const std::string& version);
  explicit SessionHistory(std::vector<SessionState> states);

  void Add(Operation operation) { operations_.push_back(std::move(operation)); }
  const std::vector<Operation>& operations() const { return operations_; }

  // The states that the session may be in after all operations, those with
  // requests in them that may still be applied last. Aborted says which
  // operation's answer none of them allows.
  absl::StatusOr<std::vector<SessionState>> PossibleStates() const;

  // The outputs, all rows one after another, of an uninterrupted run.
  using Offline = std::function<absl::StatusOr<std::vector<float>>(
      const std::vector<Segment>& segments)>;
  // Also that the outputs are those of an offline run over a possible state's
  // whole input, to `tolerance`. Aborted where they are not; else the errors of
  // `offline`.
  absl::Status Check(const Offline& offline, float tolerance) const;

 private:
  absl::Status CheckOutputs(const std::vector<float>& expected, int64_t rows,
                            float tolerance) const;

  std::vector<SessionState> initial_;
  std::vector<Operation> operations_;
};

}  // namespace recurve::pressure

#endif  // RECURVE_TESTS_PRESSURE_SESSION_HISTORY_H_
