// A call that takes a file from the client: a header with its size, then its
// bytes in order.
#ifndef RECURVE_SERVER_UPLOAD_CALL_H_
#define RECURVE_SERVER_UPLOAD_CALL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/serve/call_control.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_callback.h"
#include "server/access/gated_call.h"
#include "server/call.h"
#include "server/incoming_message.h"
#include "server/status.h"
#include "server/work_queue.h"

namespace recurve::server {

// Where the bytes go. Destroyed before Commit, it leaves nothing behind.
class UploadSink {
 public:
  virtual ~UploadSink() = default;
  virtual absl::Status Append(absl::string_view bytes) = 0;
  // All bytes are there: makes something of them and fills in the response.
  virtual absl::Status Commit(const CallControl& control) = 0;
};

// `Request` has `header` (with size_bytes) and `chunk` in a oneof `content`.
// Deletes itself when the client has its status.
template <typename Request>
class UploadCall : public grpc::ServerReadReactor<Request> {
 public:
  using Header = typename Request::Header;
  // Null if the response is filled in already: a request seen before.
  using Open =
      std::function<absl::StatusOr<std::unique_ptr<UploadSink>>(const Header&)>;

  // Pieces are written by `io`, in one call Commit runs on `work`.
  UploadCall(LiveCalls& live, WorkQueue& io, WorkQueue& work,
             int64_t max_upload_bytes,
             const grpc::CallbackServerContext& context, Open open)
      : live_(live),
        io_(io),
        work_(work),
        max_upload_bytes_(max_upload_bytes),
        open_(std::move(open)),
        flag_(live.Begin()),
        control_(ControlOf(context, flag_)),
        gated_(context) {
    const absl::Status status =
        gated_.status().ok() ? live_.TakeStream() : gated_.status();
    has_stream_ = status.ok();
    if (status.ok()) {
      this->StartRead(message_.Await());
    } else {
      End(status);
    }
  }

 private:
  ~UploadCall() override { live_.End(flag_); }

  void OnReadDone(bool ok) override {
    io_.AddPiece([this, ok] { ok ? Take() : Complete(); });
  }

  void Take() {
    if (absl::Status status = TakeMessage(); !status.ok()) return End(status);
    if (sink_ == nullptr) return End(absl::OkStatus());
    this->StartRead(message_.Await());
  }

  absl::Status TakeMessage() {
    if (absl::Status status = control_.Check(); !status.ok()) return status;
    if (message_->has_header()) return TakeHeader(message_->header());
    if (sink_ == nullptr) {
      return absl::InvalidArgumentError(
          "header: must come with the first message");
    }
    const int64_t bytes = static_cast<int64_t>(message_->chunk().size());
    if (bytes > size_ - received_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "chunk: more bytes came than the header's size_bytes, ", size_));
    }
    received_ += bytes;
    return sink_->Append(message_->chunk());
  }

  absl::Status TakeHeader(const Header& header) {
    if (sink_ != nullptr) {
      return absl::InvalidArgumentError("header: came twice");
    }
    size_ = header.size_bytes();
    if (size_ < 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("header.size_bytes: is ", size_,
                       ", must be the file's size, at least 1"));
    }
    if (size_ > max_upload_bytes_) {
      return absl::ResourceExhaustedError(absl::StrCat("header.size_bytes: is ",
                                                       size_, ", the limit is ",
                                                       max_upload_bytes_));
    }
    auto sink = open_(header);
    if (sink.ok()) sink_ = *std::move(sink);
    return sink.status();
  }

  // The client has sent all, or is gone, or what came does not parse.
  void Complete() {
    for (const absl::Status& status : {control_.Check(), message_.Missing()}) {
      if (!status.ok()) return End(status);
    }
    if (sink_ == nullptr) {
      return End(absl::InvalidArgumentError("header: is missing"));
    }
    if (received_ != size_) {
      return End(absl::InvalidArgumentError(absl::StrCat(
          "the upload ended after ", received_, " of ", size_, " bytes")));
    }
    const absl::Status accepted = work_.TryAdd([this] {
      const absl::Status wanted = control_.Check();
      End(wanted.ok() ? sink_->Commit(control_) : wanted);
    });
    if (!accepted.ok()) End(accepted);
  }

  void End(const absl::Status& status) {
    sink_.reset();
    // First: the client may open its next stream as soon as this one ends.
    if (has_stream_) live_.ReturnStream();
    this->Finish(gated_.End(ToGrpc(live_.Outcome(status))));
  }

  void OnCancel() override { *flag_ = true; }
  void OnDone() override { delete this; }

  LiveCalls& live_;
  WorkQueue& io_;
  WorkQueue& work_;
  const int64_t max_upload_bytes_;
  const Open open_;
  const LiveCalls::Flag flag_;
  const CallControl control_;
  const GatedCall gated_;
  bool has_stream_ = false;
  IncomingMessage<Request> message_;
  // Used by one piece of work at a time.
  std::unique_ptr<UploadSink> sink_;
  int64_t size_ = 0;
  int64_t received_ = 0;
};

}  // namespace recurve::server

#endif  // RECURVE_SERVER_UPLOAD_CALL_H_
