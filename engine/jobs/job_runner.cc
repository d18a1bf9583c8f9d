#include "engine/jobs/job_runner.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/directory.h"
#include "engine/base/resource_id.h"
#include "engine/jobs/job_control.h"
#include "engine/jobs/job_fit.h"
#include "kernels/status.h"

namespace recurve {
namespace {

JobDispatcher::Options DispatcherOptions(const JobRunner::Options& options) {
  JobDispatcher::Options dispatcher;
  dispatcher.max_running = options.max_running;
  dispatcher.max_queued = options.max_queued;
  return dispatcher;
}

absl::Status CheckOwner(absl::string_view owner) {
  const auto allowed = [](char c) {
    return absl::ascii_isalnum(c) || absl::StrContains("._-@+", c);
  };
  if (owner.size() <= JobRunner::kMaxOwnerBytes &&
      std::all_of(owner.begin(), owner.end(), allowed)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "owner: \"",
      absl::CHexEscape(owner.substr(0, 2 * JobRunner::kMaxOwnerBytes)),
      "\" must have at most ", JobRunner::kMaxOwnerBytes,
      " characters, letters, digits, '.', '_', '-', '@' and '+'"));
}

absl::Status CheckPriority(int32_t priority) {
  constexpr int kMax = JobRunner::kMaxPriority;
  if (-kMax <= priority && priority <= kMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "priority: is ", priority, ", must be from ", -kMax, " to ", kMax));
}

}  // namespace

JobRunner::JobRunner(const Options& options, DevicePool& devices,
                     JobStore& jobs, const DatasetStore& datasets,
                     ModelExchange& models, HeldOut held_out)
    : environment_{devices,
                   jobs,
                   datasets,
                   models,
                   std::move(held_out),
                   options.max_parameters,
                   options.directory,
                   options.max_evaluation_rows},
      dispatcher_(DispatcherOptions(options), jobs,
                  [this](const Job& job, JobControl& control) {
                    ExecuteJob(environment_, job, control);
                  }) {}
JobRunner::~JobRunner() { Shutdown(); }

absl::StatusOr<std::vector<absl::Status>> JobRunner::Start() {
  SweepFolders();
  return dispatcher_.Start();
}

absl::StatusOr<Job> JobRunner::Submit(const JobRequest& request) {
  RETURN_IF_ERROR(CheckTrainSpec(request.spec));
  RETURN_IF_ERROR(CheckOwner(request.owner));
  RETURN_IF_ERROR(CheckPriority(request.priority));
  RETURN_IF_ERROR(CheckFolder(request.id));
  // What was kept once stays kept, whatever its data and budgets are now.
  if (!environment_.jobs.FindRequest(request.request_id).ok()) {
    RETURN_IF_ERROR(CheckJobFits(request.spec, environment_.devices,
                                 environment_.datasets, environment_.models,
                                 environment_.held_out.plans,
                                 environment_.max_parameters));
  }
  return dispatcher_.Submit(request);
}

absl::Status JobRunner::CheckFolder(const std::string& id) const {
  if (!CheckResourceId(id, "job_id").ok()) return absl::OkStatus();  // refused
  std::error_code error;
  if (!std::filesystem::exists(FolderOf(id), error)) return absl::OkStatus();
  const absl::Status known = environment_.jobs.Get(id).status();
  if (!absl::IsNotFound(known)) return known;
  return absl::AlreadyExistsError(absl::StrCat(
      "job_id: the data directory has the folder of an earlier jobs/", id,
      " whose record is lost; take another id, or move that folder away"));
}

absl::StatusOr<Job> JobRunner::Change(absl::string_view job_id,
                                      JobChange change) {
  return dispatcher_.Change(job_id, change);
}

// --- Deletion ---

absl::Status JobRunner::Delete(absl::string_view job_id) {
  std::string aside;
  RETURN_IF_ERROR(
      dispatcher_.Delete(job_id, [&] { aside = TakeFolderAway(job_id); }));
  if (!aside.empty()) (void)RemoveTree(aside);  // else SweepFolders does
  return absl::OkStatus();
}

void JobRunner::SweepFolders() {
  const auto deleted = environment_.jobs.Deleted();
  if (deleted.ok()) {
    for (const std::string& id : *deleted) TakeFolderAway(id);
  }
  SweepAside(environment_.directory);
}

std::string JobRunner::TakeFolderAway(absl::string_view id) {
  auto aside = MoveAside(FolderOf(id));
  if (!aside.ok()) return "";
  environment_.jobs.ForgetDeleted(id).IgnoreError();
  return *std::move(aside);
}

std::string JobRunner::FolderOf(absl::string_view id) const {
  return absl::StrCat(environment_.directory, "/", id);
}

void JobRunner::Explain(absl::Span<Job> jobs) const {
  dispatcher_.Explain(jobs);
}

void JobRunner::Shutdown() { dispatcher_.Shutdown(); }

}  // namespace recurve
