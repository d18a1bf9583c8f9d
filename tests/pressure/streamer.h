// A client with one live sequence after another, to whom everything happens
// that can happen to a client.
#ifndef RECURVE_TESTS_PRESSURE_STREAMER_H_
#define RECURVE_TESTS_PRESSURE_STREAMER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "grpcpp/support/status.h"
#include "tests/faults/draw.h"
#include "tests/pressure/connection.h"
#include "tests/pressure/session_history.h"

namespace recurve::pressure {

// What was done how often, and what went wrong. Thread-safe.
class Record {
 public:
  void Count(const std::string& what) {
    absl::MutexLock lock(&mutex_);
    ++counts_[what];
  }
  void Fail(const std::string& what) {
    absl::MutexLock lock(&mutex_);
    failures_.push_back(what);
  }
  std::map<std::string, int64_t> counts() const {
    absl::MutexLock lock(&mutex_);
    return counts_;
  }
  std::vector<std::string> failures() const {
    absl::MutexLock lock(&mutex_);
    return failures_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::map<std::string, int64_t> counts_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> failures_ ABSL_GUARDED_BY(mutex_);
};

// What all streamers share.
struct World {
  Connections& connections;           // that get cut
  Connection& control;                // that does not
  std::vector<std::string> models;    // what new sessions are started on
  std::vector<std::string> versions;  // that a session may move to
  int32_t vocabulary_size = 0;
  Record& record;
};

class Streamer {
 public:
  // `index` tells it from the others. `world` outlives it.
  Streamer(const World& world, int index, uint64_t seed);
  ~Streamer();

  // A whole session: started, used and mistreated, ended, and its history
  // checked. What is wrong goes to the record. The stream stays open.
  void LiveOnce();

  // Has the server forget the sessions that have ended, whose last requests
  // could be made again for a while: in the name of each another begins and
  // ends, by a request that cannot.
  void ForgetEnded();

 private:
  using Stream =
      grpc::ClientReaderWriter<v1::PredictRequest, v1::PredictStreamResponse>;
  struct Reply {
    grpc::Status status;
    v1::PredictResponse response;
  };

  bool Start();
  void Step();
  void End();
  void Check();

  // --- What can happen, one each ---
  void Unary();
  void Hurried();                // with a deadline that may be too short
  void Burst(int64_t requests);  // on the stream, then their replies
  void Cancelled();              // the stream, with requests under way
  void CutOff();                 // the connection, with requests under way
  void Again();                  // the last request
  void AskPosition();
  void Restore();  // goes on from a snapshot, as another session
  void Fork();     // goes on as another session
  void Move();     // to another version

  // --- Requests ---
  Operation NewChunk();
  v1::PredictRequest ToWire(const Operation& operation) const;
  Reply CallUnary(const v1::PredictRequest& request, absl::Duration deadline);
  Reply CallOnStream(const v1::PredictRequest& request);
  // On the connection that is not cut, again and again while it is refused.
  grpc::Status CallPatiently(const v1::PredictRequest& request,
                             v1::PredictResponse* response);
  void Send(Operation operation, absl::Duration deadline);
  // Files the operation with what came of it.
  void Done(Operation operation, Reply reply, bool may_be_unknown);
  void GoOnAs(const std::string& name, int64_t position);

  // --- The stream ---
  void OpenStream();
  // How it ended, or was ended now.
  grpc::Status CloseStream(bool cancel);
  std::vector<Operation> WriteChunks(int64_t count);
  // Replies to `written`, until the last or the stream's end; those without one
  // are unknown.
  void ReadReplies(std::vector<Operation> written);

  absl::StatusOr<std::vector<float>> Offline(
      const std::vector<Segment>& segments);
  void Forget(const std::string& name);
  void Fail(const std::string& what);
  std::string NewName();

  const World& world_;
  const int index_;
  faults::Draw draw_;
  int64_t names_ = 0;
  std::vector<std::string> ended_;  // and not forgotten
  std::shared_ptr<Connection> connection_;
  std::unique_ptr<grpc::ClientContext> stream_context_;
  std::unique_ptr<Stream> stream_;

  std::string session_;   // sessions/ID
  int64_t position_ = 0;  // as last heard, and what was sent since
  bool unsure_ = false;   // of the position
  bool over_ = false;     // nothing more is to be done with it
  std::unique_ptr<SessionHistory> history_;
};

}  // namespace recurve::pressure

#endif  // RECURVE_TESTS_PRESSURE_STREAMER_H_
