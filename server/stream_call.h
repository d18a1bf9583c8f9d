// A call that streams messages to the client.
#ifndef RECURVE_SERVER_STREAM_CALL_H_
#define RECURVE_SERVER_STREAM_CALL_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/serve/call_control.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/access/gated_call.h"
#include "server/call.h"
#include "server/status.h"
#include "server/work_queue.h"

namespace recurve::server {

// Asks Next for one message after another, on a thread of the queue, one call
// at a time. Made by Start; deletes itself when the client has its status and
// no piece of work is under way.
template <typename Message>
class StreamCall : public grpc::ServerWriteReactor<Message>,
                   public std::enable_shared_from_this<StreamCall<Message>> {
 public:
  enum class Step {
    kWrite,  // the message is filled in
    kWait,   // nothing now; Next is called again after Wake
    kEnd,    // the stream is complete
  };

  StreamCall(LiveCalls& live, WorkQueue& queue, int64_t max_message_bytes,
             const grpc::CallbackServerContext& context)
      : live_(live),
        queue_(queue),
        max_message_bytes_(max_message_bytes),
        flag_(live.Begin()),
        control_(ControlOf(context, flag_)),
        gated_(context) {}
  ~StreamCall() override { live_.End(flag_); }

  static grpc::ServerWriteReactor<Message>* Start(
      std::shared_ptr<StreamCall> call) {
    StreamCall* const reactor = call.get();
    reactor->self_ = std::move(call);
    const absl::Status status = reactor->gated_.status().ok()
                                    ? reactor->live_.TakeStream()
                                    : reactor->gated_.status();
    reactor->has_stream_ = status.ok();
    if (status.ok()) {
      reactor->Wake();
    } else {
      reactor->End(status);
    }
    return reactor;
  }

 protected:
  virtual absl::StatusOr<Step> Next(Message* message) = 0;
  // Lets go of what might call Wake. On an RPC thread, before destruction.
  virtual void Release() {}

  // From any thread.
  void Wake() ABSL_LOCKS_EXCLUDED(mutex_) {
    absl::MutexLock lock(&mutex_);
    wake_ = true;
    if (!busy_ && !ended_) Schedule();
  }
  const CallControl& control() const { return control_; }
  const std::string& client() const { return gated_.client(); }

 private:
  void Schedule() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    busy_ = true;
    queue_.AddPiece([self = this->shared_from_this()] { self->Advance(); });
  }

  void Advance() {
    {
      absl::MutexLock lock(&mutex_);
      wake_ = false;
    }
    if (const absl::Status status = control_.Check(); !status.ok()) {
      return End(status);
    }
    message_.Clear();
    const absl::StatusOr<Step> step = Next(&message_);
    if (!step.ok()) return End(step.status());
    if (*step == Step::kEnd) return End(absl::OkStatus());
    if (*step == Step::kWrite) return Write();
    absl::MutexLock lock(&mutex_);
    busy_ = false;
    if (wake_) Schedule();
  }

  void Write() {
    const size_t bytes = message_.ByteSizeLong();
    if (bytes > static_cast<size_t>(max_message_bytes_)) {
      return End(absl::ResourceExhaustedError(
          absl::StrCat("a message of the stream has ", bytes,
                       " bytes, the limit is ", max_message_bytes_)));
    }
    this->StartWrite(&message_);
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return End(absl::CancelledError("the client went away"));
    absl::MutexLock lock(&mutex_);
    Schedule();
  }

  // Once: by the piece of work or the write that is under way, or by Start.
  void End(const absl::Status& status) {
    {
      absl::MutexLock lock(&mutex_);
      ended_ = true;
    }
    // First: the client may open its next stream as soon as this one ends.
    if (has_stream_) live_.ReturnStream();
    this->Finish(gated_.End(ToGrpc(live_.Outcome(status))));
  }

  void OnCancel() override {
    *flag_ = true;
    Wake();
  }

  void OnDone() override {
    Release();
    self_.reset();
  }

  LiveCalls& live_;
  WorkQueue& queue_;
  const int64_t max_message_bytes_;
  const LiveCalls::Flag flag_;
  const CallControl control_;
  const GatedCall gated_;
  bool has_stream_ = false;
  Message message_;
  absl::Mutex mutex_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;  // in a piece of work or a write
  bool wake_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<StreamCall> self_;
};

}  // namespace recurve::server

#endif  // RECURVE_SERVER_STREAM_CALL_H_
