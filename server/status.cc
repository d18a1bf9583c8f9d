#include "server/status.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace recurve::server {
namespace {

// gRPC sends at most 8 KiB of trailers by default, each byte as up to 3.
constexpr size_t kMaxMessageBytes = 2048;

// Bytes of the UTF-8 sequence at the beginning of `text`, 0 if there is none.
size_t SequenceLength(absl::string_view text) {
  const unsigned char lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80             ? 1
                        : (lead & 0xe0) == 0xc0 ? 2
                        : (lead & 0xf0) == 0xe0 ? 3
                        : (lead & 0xf8) == 0xf0 ? 4
                                                : 0;
  if (length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  }
  return length;
}

std::string Message(absl::string_view text) {
  std::string message;
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    if (message.size() + length > kMaxMessageBytes) return message + "...";
    if (length == 0) {
      message += '?';
      text.remove_prefix(1);
    } else {
      message.append(text.data(), length);
      text.remove_prefix(length);
    }
  }
  return message;
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                      Message(status.message()));
}

}  // namespace recurve::server
