#include "server/protobuf_log.h"

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "google/protobuf/stubs/logging.h"

namespace recurve::server {
namespace {

constexpr absl::Duration kBetweenLines = absl::Minutes(1);

void Write(google::protobuf::LogLevel level, const char* file, int line,
           const std::string& message) {
  static auto* const limit = new LogLimit;
  const std::string text =
      absl::StrCat("protobuf (", file, ":", line, "): ", message, "\n");
  // The last words before an abort are not to be missed.
  const bool all = level == google::protobuf::LOGLEVEL_FATAL;
  const std::string admitted = all ? text : limit->Admit(text, absl::Now());
  std::fputs(admitted.c_str(), stderr);
}

}  // namespace

std::string LogLimit::Admit(absl::string_view line, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  if (now < next_) {
    ++left_out_;
    return "";
  }
  next_ = now + kBetweenLines;
  const int64_t left_out = std::exchange(left_out_, 0);
  if (left_out == 0) return std::string(line);
  return absl::StrCat("(", left_out, " lines like the next were left out)\n",
                      line);
}

void LimitProtobufLog() { google::protobuf::SetLogHandler(&Write); }

}  // namespace recurve::server
