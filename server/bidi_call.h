// A call that takes requests as they come and answers each.
#ifndef RECURVE_SERVER_BIDI_CALL_H_
#define RECURVE_SERVER_BIDI_CALL_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "engine/serve/call_control.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/access/gated_call.h"
#include "server/call.h"
#include "server/incoming_message.h"
#include "server/notice.h"
#include "server/status.h"
#include "server/work_queue.h"

namespace recurve::server {

// Requests are handled at the same time, their responses written in their
// order. While `max_unanswered` of them wait for their response to be made or
// written, or those that wait have `max_bytes` with their responses, no more
// are read. One that does not parse ends the call as InvalidArgument when those
// before it are answered. Made by Start; deletes itself when every request was
// answered and the client has its status.
template <typename Request, typename Response>
class BidiCall
    : public grpc::ServerBidiReactor<Request, Response>,
      public std::enable_shared_from_this<BidiCall<Request, Response>> {
 public:
  // `max_unanswered` is 1 or more.
  BidiCall(LiveCalls& live, size_t max_unanswered,
           const grpc::CallbackServerContext& context,
           size_t max_bytes = std::numeric_limits<size_t>::max())
      : live_(live),
        max_unanswered_(max_unanswered),
        max_bytes_(max_bytes),
        flag_(live.Begin()),
        control_(ControlOf(context, flag_)),
        gated_(context) {}

  // Once `draining` is given, no more is read, and the call ends as Unavailable
  // when all is answered. Before Start; both outlive the call.
  void EndOn(Notice& draining, WorkQueue& io) {
    draining_ = draining.Listen([this, &io] {
      if (auto self = this->weak_from_this().lock()) {
        io.AddPiece([self = std::move(self)] { self->Drain(); });
      }
    });
  }

  static grpc::ServerBidiReactor<Request, Response>* Start(
      std::shared_ptr<BidiCall> call) {
    BidiCall* const reactor = call.get();
    reactor->self_ = std::move(call);
    const absl::Status status = reactor->gated_.status().ok()
                                    ? reactor->live_.TakeStream()
                                    : reactor->gated_.status();
    reactor->has_stream_ = status.ok();
    if (status.ok()) {
      reactor->StartRead(reactor->incoming_.Await());
    } else {
      reactor->End(status);
    }
    return reactor;
  }

 protected:
  // OK: the response is there. An error ends the call when what came before is
  // written.
  using Answered = std::function<void(absl::Status)>;

  // Of the call, and so of all its requests.
  const CallControl& control() const { return control_; }
  const std::string& client() const { return gated_.client(); }

  // On an RPC thread, one request after another. Both are good until `answered`
  // is called: once, on any thread, or before this returns.
  virtual void Handle(Request& request, Response& response,
                      Answered answered) = 0;

 private:
  struct Exchange {
    Request request;
    Response response;
    size_t bytes = 0;  // of the request, then of both
    bool answered = false;
    absl::Status status;
  };
  enum class Next { kNothing, kWrite, kFinish };

  void OnReadDone(bool ok) override {
    if (!ok) return ReadAll(incoming_.Missing());
    const auto exchange = Add(std::move(*incoming_));
    Handle(exchange->request, exchange->response,
           [self = this->shared_from_this(), exchange](absl::Status status) {
             self->Answer(*exchange, std::move(status));
           });
    ReadOn();
  }

  std::shared_ptr<Exchange> Add(Request request) {
    auto exchange = std::make_shared<Exchange>();
    exchange->request = std::move(request);
    exchange->bytes = exchange->request.ByteSizeLong();
    absl::MutexLock lock(&mutex_);
    exchanges_.push_back(exchange);
    bytes_ += exchange->bytes;
    ++unanswered_;
    return exchange;
  }

  void ReadOn() {
    {
      absl::MutexLock lock(&mutex_);
      paused_ = MustPause();
      if (paused_ || drains_ || end_.has_value()) return;
    }
    this->StartRead(incoming_.Await());
  }

  void Drain() {
    Next next;
    {
      absl::MutexLock lock(&mutex_);
      drains_ = true;
      next = Decide();
    }
    Do(next);
  }

  // The client has sent all, or is gone, or what came does not parse.
  void ReadAll(const absl::Status& status) {
    if (!status.ok()) Answer(*Add(Request()), status);
    Next next;
    {
      absl::MutexLock lock(&mutex_);
      read_all_ = true;
      next = Decide();
    }
    Do(next);
  }

  bool MustPause() const ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return exchanges_.size() >= max_unanswered_ ||
           (!exchanges_.empty() && bytes_ >= max_bytes_);
  }

  void Answer(Exchange& exchange, absl::Status status) {
    const size_t response_bytes = exchange.response.ByteSizeLong();
    Next next;
    {
      absl::MutexLock lock(&mutex_);
      exchange.bytes += response_bytes;
      bytes_ += response_bytes;
      exchange.status = std::move(status);
      exchange.answered = true;
      --unanswered_;
      next = Decide();
    }
    Do(next);
  }

  void OnWriteDone(bool ok) override {
    Next next;
    bool resume = false;
    {
      absl::MutexLock lock(&mutex_);
      writing_ = false;
      bytes_ -= exchanges_.front()->bytes;
      exchanges_.pop_front();
      if (!ok) SetEnd(absl::CancelledError("the client went away"));
      resume = paused_ && !MustPause() && !drains_ && !end_.has_value();
      if (resume) paused_ = false;
      next = Decide();
    }
    if (resume) this->StartRead(incoming_.Await());
    Do(next);
  }

  void End(const absl::Status& status) {
    Next next;
    {
      absl::MutexLock lock(&mutex_);
      SetEnd(status);
      next = Decide();
    }
    Do(next);
  }

  void SetEnd(const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (end_.has_value()) return;
    end_ = status;
    *flag_ = true;  // what has no answer yet is not wanted any more
  }

  Next Decide() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || finished_) return Next::kNothing;
    if (!end_.has_value() && exchanges_.empty() && (read_all_ || drains_)) {
      SetEnd(read_all_ ? absl::OkStatus()
                       : absl::UnavailableError("the server is shutting down"));
    }
    if (!end_.has_value() && !exchanges_.empty() &&
        exchanges_.front()->answered) {
      writing_ = exchanges_.front()->status.ok();
      if (writing_) return Next::kWrite;
      SetEnd(exchanges_.front()->status);
    }
    if (!end_.has_value() || unanswered_ > 0) return Next::kNothing;
    finished_ = true;
    return Next::kFinish;
  }

  // Without the lock: gRPC may call back before it returns.
  void Do(Next next) {
    if (next == Next::kWrite) {
      const Response* response;
      {
        absl::MutexLock lock(&mutex_);
        response = &exchanges_.front()->response;
      }
      this->StartWrite(response);
    } else if (next == Next::kFinish) {
      absl::Status status;
      {
        absl::MutexLock lock(&mutex_);
        status = *end_;
      }
      // First: the client may open its next stream as soon as this one ends.
      if (has_stream_) live_.ReturnStream();
      this->Finish(gated_.End(ToGrpc(live_.Outcome(status))));
    }
  }

  void OnCancel() override { *flag_ = true; }

  void OnDone() override {
    draining_.reset();
    live_.End(flag_);
    self_.reset();
  }

  LiveCalls& live_;
  const size_t max_unanswered_;
  const size_t max_bytes_;
  const LiveCalls::Flag flag_;
  const CallControl control_;
  const GatedCall gated_;
  std::unique_ptr<Notice::Listener> draining_;
  bool has_stream_ = false;
  IncomingMessage<Request> incoming_;
  absl::Mutex mutex_;
  // Those that are not written yet, oldest first.
  std::deque<std::shared_ptr<Exchange>> exchanges_ ABSL_GUARDED_BY(mutex_);
  size_t unanswered_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;     // of `exchanges_`
  bool paused_ ABSL_GUARDED_BY(mutex_) = false;  // reading
  bool read_all_ ABSL_GUARDED_BY(mutex_) = false;
  bool drains_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<BidiCall> self_;
};

}  // namespace recurve::server

#endif  // RECURVE_SERVER_BIDI_CALL_H_
