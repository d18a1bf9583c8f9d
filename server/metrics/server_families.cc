#include "server/metrics/server_families.h"

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace recurve::server {
namespace {

void AddOne(Family family, double value, Families& families) {
  family.Add({}, value);
  families.push_back(family.Take());
}

constexpr absl::string_view Compiler() {
#if defined(__clang__)
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

}  // namespace

void AddCalls(const CallCounts::Table& calls, Families& families) {
  Family family = Family::Counter(
      "recurve_calls_total", "Calls that have ended, by method and status");
  for (const auto& [key, count] : calls) {
    const auto code = static_cast<absl::StatusCode>(key.second);
    family.Add(
        {{"method", key.first}, {"code", absl::StatusCodeToString(code)}},
        static_cast<double>(count));
  }
  families.push_back(family.Take());
}

void AddJobs(const std::map<JobState, int64_t>& jobs, Families& families) {
  Family family =
      Family::Gauge("recurve_jobs", "Jobs that have not ended, by state");
  for (const JobState state : kJobStates) {
    if (HasEnded(state)) continue;
    const auto found = jobs.find(state);
    family.Add({{"state", absl::AsciiStrToLower(JobStateName(state))}},
               found == jobs.end() ? 0 : static_cast<double>(found->second));
  }
  families.push_back(family.Take());
}

void AddSessions(const SessionStore::Statistics& sessions, Families& families) {
  AddOne(Family::Gauge("recurve_sessions", "Live sessions"),
         static_cast<double>(sessions.sessions), families);
  AddOne(Family::Gauge("recurve_session_state_bytes",
                       "Their states, on devices and in host memory"),
         static_cast<double>(sessions.bytes), families);
  AddOne(Family::Gauge("recurve_session_waiting_requests",
                       "Requests that wait for another of their session"),
         static_cast<double>(sessions.waiting), families);
  AddOne(Family::Counter("recurve_sessions_started_total",
                         "Sessions that began since the start"),
         static_cast<double>(sessions.started), families);
  AddOne(Family::Counter("recurve_sessions_expired_total",
                         "Sessions that ended since nobody used them"),
         static_cast<double>(sessions.expired), families);
}

void AddBuild(Families& families) {
  Family family =
      Family::Gauge("recurve_build_info", "1, with the labels of this program");
  family.Add({{"compiler", std::string(Compiler())}}, 1);
  families.push_back(family.Take());
}

}  // namespace recurve::server
