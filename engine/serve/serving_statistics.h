// What has been served of each model version, counted: for whoever looks at
// the server.
#ifndef RECURVE_ENGINE_SERVE_SERVING_STATISTICS_H_
#define RECURVE_ENGINE_SERVE_SERVING_STATISTICS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace recurve {

struct TimedCount {
  int64_t count = 0;
  absl::Duration time;  // of all together

  void Add(absl::Duration one) {
    ++count;
    time += one;
  }
};

// Where the time of a pass goes.
struct PassTimes {
  absl::Duration input;   // packing rows and states
  absl::Duration infer;   // on the device, copies to and from it included
  absl::Duration output;  // handing the rows out

  PassTimes& operator+=(const PassTimes& other) {
    input += other.input;
    infer += other.infer;
    output += other.output;
    return *this;
  }
};

struct PassCount {
  int64_t passes = 0;
  PassTimes times;
};

struct ServingCounts {
  // Requests that have ended, from Enqueue to their answer.
  TimedCount succeeded;
  TimedCount failed;      // all others but those refused
  int64_t cancelled = 0;  // of `failed`: by the caller or by the deadline
  int64_t refused = 0;    // at the door: full, or hopeless
  // Of those that succeeded: until their first pass, and the times of the
  // passes that they were in.
  TimedCount queue, input, infer, output;

  int64_t sequences = 0;  // of requests that succeeded
  int64_t rows = 0;       // that went through the model
  int64_t passes = 0;
  // By rows of the pass, rounded up to a power of two.
  std::map<int64_t, PassCount> passes_by_rows;

  int64_t pending = 0;      // requests now: waiting or under way
  absl::Time last_request;  // when the last one came
};

// Of one version. Thread-safe.
class VersionStatistics {
 public:
  struct Ended {
    absl::Status status;
    absl::Duration total;
    // Where it succeeded.
    absl::Duration queue = {};
    PassTimes passes = {};
    int64_t sequences = 0;
  };

  void Entered(absl::Time now);
  // One that had entered.
  void Left(const Ended& ended);
  void Refused();
  void Passed(int64_t rows, const PassTimes& times);

  ServingCounts Snapshot() const;

 private:
  mutable absl::Mutex mutex_;
  ServingCounts counts_ ABSL_GUARDED_BY(mutex_);
};

// Thread-safe.
class ServingStatistics {
 public:
  // By the version's name, from nothing if it is new.
  std::shared_ptr<VersionStatistics> Of(const std::string& version);
  // Of versions that something was asked of, by name.
  std::map<std::string, ServingCounts> Snapshot() const;
  ServingCounts SnapshotOf(const std::string& version) const;
  // Of a version that was deleted.
  void Forget(const std::string& version);

 private:
  mutable absl::Mutex mutex_;
  std::map<std::string, std::shared_ptr<VersionStatistics>> versions_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_SERVING_STATISTICS_H_
