#include "engine/jobs/job_reporter.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// Errors that the same call would meet again.
bool IsFinal(const absl::Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsNotFound(status) ||
         absl::IsInvalidArgument(status);
}

}  // namespace

JobReporter::JobReporter(JobStore& store, const Job& job,
                         const std::string& folder, JobControl& control,
                         absl::Duration retry_delay)
    : store_(store),
      id_(job.id),
      control_(control),
      retry_delay_(retry_delay),
      files_(store, job, folder) {}

absl::Status JobReporter::Keep(const std::function<absl::Status()>& change) {
  while (true) {
    const absl::Status status = change();
    if (status.ok() || IsFinal(status)) return status;
    if (control_.stopping()) {
      return absl::CancelledError(
          absl::StrCat("stopped while waiting for: ", status.message()));
    }
    control_.WaitForShutdown(retry_delay_);
  }
}

absl::Status JobReporter::Open(int64_t first_event) {
  next_event_ = first_event;
  RETURN_IF_ERROR(Keep([this] { return Scan(); }));
  SyncFiles();
  return absl::OkStatus();
}

// Takes in the events from next_event_ on.
absl::Status JobReporter::Scan() {
  while (true) {
    ASSIGN_OR_RETURN(const std::vector<JobEvent> events,
                     store_.Events(id_, next_event_, 0));
    if (events.empty()) return absl::OkStatus();
    for (const JobEvent& event : events) {
      if (const auto* metrics = std::get_if<JobMetrics>(&event.what)) {
        reported_step_ = std::max(reported_step_, metrics->step);
      } else if (const auto* e = std::get_if<JobEvaluation>(&event.what)) {
        evaluated_step_ = std::max(evaluated_step_, e->step);
      } else if (const auto* w = std::get_if<JobWarning>(&event.what)) {
        warnings_.insert(w->text);
      }
    }
    next_event_ = events.back().number + 1;
  }
}

absl::Status JobReporter::Report(const JobMetrics& metrics,
                                 const std::vector<DeviceTime>& devices) {
  if (metrics.step <= reported_step_) return absl::OkStatus();
  RETURN_IF_ERROR(Keep([&] { return store_.Report(id_, metrics, devices); }));
  reported_step_ = metrics.step;
  SyncFiles();
  return absl::OkStatus();
}

absl::Status JobReporter::ReportEvaluation(const JobEvaluation& evaluation,
                                           bool best) {
  if (evaluation.step <= evaluated_step_) return absl::OkStatus();
  RETURN_IF_ERROR(
      Keep([&] { return store_.ReportEvaluation(id_, evaluation, best); }));
  evaluated_step_ = evaluation.step;
  SyncFiles();
  return absl::OkStatus();
}

absl::Status JobReporter::ReportCheckpoint(const JobCheckpoint& checkpoint) {
  return Keep([&] { return store_.ReportCheckpoint(id_, checkpoint); });
}

absl::Status JobReporter::Warn(absl::string_view text) {
  if (warnings_.count(text) > 0) return absl::OkStatus();
  RETURN_IF_ERROR(Keep([&] { return store_.Warn(id_, text); }));
  warnings_.insert(std::string(text));
  return absl::OkStatus();
}

absl::Status JobReporter::ReportWait(absl::string_view cause) {
  RETURN_IF_ERROR(Keep([&] {
    return store_
        .Change(id_,
                [&](Job& job) {
                  // Told to stop, it says why it does.
                  if (job.state != JobState::kValidating) return;
                  job.cause = std::string(cause);
                })
        .status();
  }));
  return std::exchange(waits_, true) ? absl::OkStatus() : Warn(cause);
}

absl::StatusOr<Job> JobReporter::SetState(
    JobState state, absl::string_view cause,
    const std::function<void(Job&)>& change) {
  Job job;
  RETURN_IF_ERROR(Keep([&]() -> absl::Status {
    ASSIGN_OR_RETURN(job, store_.SetState(id_, state, cause, change));
    return absl::OkStatus();
  }));
  return job;
}

absl::StatusOr<int64_t> JobReporter::RollBack() {
  RETURN_IF_ERROR(Keep([this] { return Scan(); }));
  reported_step_ = evaluated_step_ = 0;
  warnings_.clear();
  return next_event_;
}

void JobReporter::SyncFiles() { NoteFiles(files_.Sync()); }
void JobReporter::FinishFiles() { NoteFiles(files_.Finish()); }

void JobReporter::NoteFiles(const absl::Status& status) {
  if (status.ok() || files_failed_) return;
  files_failed_ = true;
  // No one to tell where the store fails too.
  Warn(absl::StrCat("the metrics files are behind: ", status.message()))
      .IgnoreError();
}

}  // namespace recurve
