// Calls, jobs, sessions and the program itself.
#ifndef RECURVE_SERVER_METRICS_SERVER_FAMILIES_H_
#define RECURVE_SERVER_METRICS_SERVER_FAMILIES_H_

#include <cstdint>
#include <map>
#include <string>

#include "engine/jobs/job.h"
#include "engine/serve/session_store.h"
#include "server/access/call_counts.h"
#include "server/metrics/family.h"

namespace recurve::server {

void AddCalls(const CallCounts::Table& calls, Families& families);
// Jobs that have not ended, by state: those that are not in `jobs` are 0.
void AddJobs(const std::map<JobState, int64_t>& jobs, Families& families);
void AddSessions(const SessionStore::Statistics& sessions, Families& families);
// Which program this is.
void AddBuild(Families& families);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_METRICS_SERVER_FAMILIES_H_
