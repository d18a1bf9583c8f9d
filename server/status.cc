#include "server/status.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "engine/serve/retry_hint.h"
#include "proto/google/rpc/status.pb.h"

namespace recurve::server {
namespace {

// gRPC takes at most 8 KiB of trailers by default: a message whose bytes are
// sent as up to 3 each, and details that repeat it twice, in base64.
constexpr size_t kMaxMessageBytes = 2048;
constexpr size_t kMaxDetailedBytes = 512;

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

// "batch.tokens[3]: is wrong" -> "batch.tokens[3]"; empty for other messages.
absl::string_view FieldOf(absl::string_view message) {
  const absl::string_view field = message.substr(0, message.find(": "));
  if (field.size() == message.size()) return {};
  const auto belongs = [](char c) {
    return absl::ascii_isalnum(c) || absl::StrContains("_.[]", c);
  };
  return std::all_of(field.begin(), field.end(), belongs) ? field
                                                          : absl::string_view();
}

void AddBadRequest(absl::string_view field, absl::string_view what,
                   google::rpc::Status& details) {
  google::rpc::BadRequest request;
  auto& violation = *request.add_field_violations();
  violation.set_field(std::string(field));
  violation.set_description(std::string(what));
  details.add_details()->PackFrom(request);
}

void AddRetryInfo(absl::Duration delay, google::rpc::Status& details) {
  google::rpc::RetryInfo info;
  const int64_t nanoseconds = absl::ToInt64Nanoseconds(delay);
  info.mutable_retry_delay()->set_seconds(nanoseconds / 1'000'000'000);
  info.mutable_retry_delay()->set_nanos(
      static_cast<int32_t>(nanoseconds % 1'000'000'000));
  details.add_details()->PackFrom(info);
}

// A serialized google.rpc.Status, or nothing.
std::string Details(const absl::Status& status, const std::string& message) {
  google::rpc::Status details;
  const bool is_short = message.size() <= kMaxDetailedBytes;
  const absl::string_view field = FieldOf(message);
  if (absl::IsInvalidArgument(status) && !field.empty() && is_short) {
    AddBadRequest(field, absl::string_view(message).substr(field.size() + 2),
                  details);
  }
  if (const auto delay = RetryHint(status); delay.has_value()) {
    AddRetryInfo(*delay, details);
  }
  if (details.details_size() == 0) return "";
  details.set_code(status.raw_code());
  if (is_short) details.set_message(message);
  return details.SerializeAsString();
}

}  // namespace

grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const auto code = static_cast<grpc::StatusCode>(status.code());
  const std::string message = Message(status.message());
  return grpc::Status(code, message, Details(status, message));
}

}  // namespace recurve::server
