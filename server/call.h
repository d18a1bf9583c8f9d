// Calls of clients in the callback API: unary calls answered later, uploads and
// streams of messages. RPC threads only begin them; the work is done by the
// work queues or the devices.
#ifndef RECURVE_SERVER_CALL_H_
#define RECURVE_SERVER_CALL_H_

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/serve/call_control.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/access/gated_call.h"
#include "server/work_queue.h"

namespace recurve::server {

// All calls that are being worked on, so that a drain can stop them.
// Thread-safe.
class LiveCalls {
 public:
  using Flag = std::shared_ptr<std::atomic<bool>>;

  // At most `max_streams` at once count as streams.
  explicit LiveCalls(int max_streams) : free_streams_(max_streams) {}

  // The flag becomes true when the call is to stop.
  Flag Begin();
  void End(const Flag& flag);
  absl::Status TakeStream();  // ResourceExhausted if there are too many
  void ReturnStream();

  // Stops all calls, now and in future.
  void StopAll();
  // Until there is none; false if `deadline` came first.
  bool AwaitNone(absl::Time deadline) const;
  // What the client is told: a call that StopAll stopped is Unavailable.
  absl::Status Outcome(absl::Status status) const;

 private:
  mutable absl::Mutex mutex_;
  std::set<Flag> flags_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  int free_streams_ ABSL_GUARDED_BY(mutex_);
};

// The deadline and the flag of one call, in the engine's terms.
CallControl ControlOf(const grpc::CallbackServerContext& context,
                      const LiveCalls::Flag& flag);

// Every call begins in one of the functions and classes here, in stream_call.h,
// upload_call.h and bidi_call.h: they do nothing for a call that the gate
// refused (server/access/gated_call.h).

// Answers at once with what `answer` makes.
grpc::ServerUnaryReactor* ReplyNow(grpc::CallbackServerContext* context,
                                   absl::FunctionRef<absl::Status()> answer);

// A unary call that is answered by one call of Reply, from any thread; it
// deletes itself afterwards.
class UnaryCall : public grpc::ServerUnaryReactor {
 public:
  // `begin` sees to it that the call is answered.
  static grpc::ServerUnaryReactor* Start(
      LiveCalls& live, const grpc::CallbackServerContext& context,
      absl::FunctionRef<void(UnaryCall* call)> begin);

  const CallControl& control() const { return control_; }
  const std::string& client() const { return gated_.client(); }
  void Reply(const absl::Status& status);

 private:
  UnaryCall(LiveCalls& live, const grpc::CallbackServerContext& context);
  ~UnaryCall() override = default;
  void OnCancel() override { *flag_ = true; }
  void OnDone() override;

  const GatedCall gated_;
  LiveCalls& live_;
  const LiveCalls::Flag flag_;
  const CallControl control_;
};

// A unary call whose answer `work` makes, on a thread of `queue`.
grpc::ServerUnaryReactor* ReplyByWork(
    LiveCalls& live, WorkQueue& queue, grpc::CallbackServerContext* context,
    std::function<absl::Status(const CallControl&)> work);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_CALL_H_
