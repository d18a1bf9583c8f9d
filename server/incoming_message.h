// A message of the client that a stream waits for.
#ifndef RECURVE_SERVER_INCOMING_MESSAGE_H_
#define RECURVE_SERVER_INCOMING_MESSAGE_H_

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/unknown_field_set.h"

namespace recurve::server {

// gRPC says OnReadDone(false) both at the end of the client's messages and for
// one that does not parse. What tells them apart: parsing clears the message
// first, and at the end nothing touches it. So a mark is put into it that no
// message has: a field of number 0, which the wire format does not allow.
template <typename Message>
class IncomingMessage {
 public:
  // For StartRead.
  Message* Await() {
    message_.Clear();
    message_.GetReflection()->MutableUnknownFields(&message_)->AddVarint(0, 0);
    return &message_;
  }

  // What came, after OnReadDone(true).
  Message& operator*() { return message_; }
  const Message* operator->() const { return &message_; }

  // After OnReadDone(false): OK if the client has sent all, or is gone;
  // InvalidArgument if it sent what is no such message.
  absl::Status Missing() const {
    const google::protobuf::UnknownFieldSet& fields =
        message_.GetReflection()->GetUnknownFields(message_);
    if (!fields.empty() && fields.field(0).number() == 0) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "a message of the stream does not parse as ",
        Message::descriptor()->full_name(), " (strings must be UTF-8)"));
  }

 private:
  Message message_;
};

}  // namespace recurve::server

#endif  // RECURVE_SERVER_INCOMING_MESSAGE_H_
