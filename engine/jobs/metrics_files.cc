#include "engine/jobs/metrics_files.h"

#include <fcntl.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/file.h"
#include "engine/base/file_calls.h"
#include "kernels/status.h"

namespace recurve {
namespace {

absl::StatusOr<FileDescriptor> OpenToAppend(const std::string& path) {
  FileDescriptor file(
      file_calls().Open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC, 0));
  if (file.get() < 0) return SystemError("open", path);
  return file;
}

}  // namespace

MetricsFiles::MetricsFiles(const JobStore& store, const Job& job,
                           const std::string& folder)
    : store_(store),
      job_id_(job.id),
      create_time_(job.create_time),
      csv_path_(absl::StrCat(folder, "/metrics.csv")),
      // TensorBoard looks for `tfevents` and sorts by the time after it.
      tensorboard_path_(
          absl::StrFormat("%s/events.out.tfevents.%010d.recurve", folder,
                          absl::ToUnixSeconds(job.create_time))) {}

absl::Status MetricsFiles::Sync() {
  const absl::Status status = format_ ? Append() : Rewrite();
  if (!status.ok()) format_.reset();
  return status;
}

absl::Status MetricsFiles::Finish() {
  RETURN_IF_ERROR(Sync());
  format_.reset();  // the files are closed
  RETURN_IF_ERROR(csv_.Finish(csv_path_));
  return tensorboard_.Finish(tensorboard_path_);
}

// Of the events from next_event_ on.
absl::StatusOr<MetricsText> MetricsFiles::NewText() {
  MetricsText text;
  if (!format_) format_.emplace(create_time_, &text);
  while (true) {
    ASSIGN_OR_RETURN(const std::vector<JobEvent> events,
                     store_.Events(job_id_, next_event_, 0));
    if (events.empty()) return text;
    for (const JobEvent& event : events) format_->Add(event, &text);
    next_event_ += static_cast<int64_t>(events.size());
  }
}

absl::Status MetricsFiles::Rewrite() {
  next_event_ = 0;
  ASSIGN_OR_RETURN(const MetricsText text, NewText());
  RETURN_IF_ERROR(WriteFileAtomically(csv_path_, {text.csv}));
  RETURN_IF_ERROR(WriteFileAtomically(tensorboard_path_, {text.tensorboard}));
  ASSIGN_OR_RETURN(csv_, OpenToAppend(csv_path_));
  ASSIGN_OR_RETURN(tensorboard_, OpenToAppend(tensorboard_path_));
  return absl::OkStatus();
}

absl::Status MetricsFiles::Append() {
  ASSIGN_OR_RETURN(const MetricsText text, NewText());
  RETURN_IF_ERROR(csv_.Write(text.csv, csv_path_));
  return tensorboard_.Write(text.tensorboard, tensorboard_path_);
}

}  // namespace recurve
