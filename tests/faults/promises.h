// What a server has acknowledged, and so must keep whatever happens to it.
#ifndef RECURVE_TESTS_FAULTS_PROMISES_H_
#define RECURVE_TESTS_FAULTS_PROMISES_H_

#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/client.h"

namespace recurve::faults {

// Thread-safe. Names are the wire's: datasets/ID, models/ID/versions/N,
// jobs/ID, trainers/ID.
class Promises {
 public:
  Promises() = default;
  // Goes on from the log at `path`, and appends to it each promise at once: it
  // outlives a process that ends in the middle.
  explicit Promises(const std::string& path);
  ~Promises();

  // `value` is what describes it and may never change: the sha256 of a dataset
  // or version, the end of a job. Empty: it is there, that is all.
  void Kept(const std::string& name, const std::string& value = "");
  // A deletion that was asked for: from now on it may be there or not.
  void Deleting(const std::string& name);
  // It has been acknowledged.
  void Deleted(const std::string& name);

  // Names of what is promised and not being deleted that begin with `prefix`.
  std::vector<std::string> Names(const std::string& prefix) const;

  // What the server of `client` does not keep. Empty: all is well.
  std::vector<std::string> Broken(Client& client) const;

 private:
  enum class State { kKept, kDeleting, kDeleted };
  struct Promise {
    State state = State::kKept;
    std::string value;
  };

  void Set(State state, const std::string& name, const std::string& value);

  mutable absl::Mutex mutex_;
  std::map<std::string, Promise> promises_ ABSL_GUARDED_BY(mutex_);
  int log_ = -1;
};

// What describes the resource of that name, as Kept wants it.
absl::StatusOr<std::string> Describe(Client& client, const std::string& name);
std::string DescribeEnd(const v1::Job& job);

// Whatever the server lists that is not whole: every dataset is read, every
// version exported, every ended job's events gone through.
std::vector<std::string> HalfWritten(Client& client);

}  // namespace recurve::faults

#endif  // RECURVE_TESTS_FAULTS_PROMISES_H_
