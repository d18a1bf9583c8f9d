// train, jobs, watch, cancel.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/cli/data_files.h"
#include "client/cli/files.h"
#include "client/cli/progress.h"
#include "client/cli/session.h"

namespace recurve::cli {
namespace {

// A watch that loses the server tries again this often, from the next event.
constexpr int kReconnects = 10;

void PrintJob(const Session& session, const v1::Job& job) {
  if (session.json) return PrintJson(ToJson(job));
  absl::PrintF("%s  %s  %s  step %d", job.name(),
               v1::Job::State_Name(job.state()), job.spec().model(),
               job.step());
  if (job.loss() != 0) absl::PrintF("  loss %.4f", job.loss());
  if (job.held_out_loss() != 0) {
    absl::PrintF("  held-out loss %.4f", job.held_out_loss());
  }
  if (!job.model_version().empty()) absl::PrintF("  %s", job.model_version());
  if (!job.cause().empty()) absl::PrintF("  (%s)", job.cause());
  absl::PrintF("\n");
}

// OK if the job has done what it was to do.
absl::Status Outcome(const v1::Job& job) {
  switch (job.state()) {
    case v1::Job::FAILED:
      return absl::AbortedError(
          absl::StrCat(job.name(), " failed: ", job.cause()));
    case v1::Job::CANCELLED:
      return absl::CancelledError(
          absl::StrCat(job.name(), " was cancelled: ", job.cause()));
    default:
      return absl::OkStatus();
  }
}

// Prints a job's events until it has ended, then the job. Fails unless it
// succeeded.
absl::Status WatchToEnd(Session& session, const std::string& name) {
  ProgressPrinter printer(stderr, TerminalColumns(stderr));
  int64_t next_event = 0;
  v1::Job job;
  absl::Status watched;
  for (int attempt = 0; attempt <= kReconnects; ++attempt) {
    if (attempt > 0) absl::SleepFor(absl::Seconds(1));
    watched = session.client().WatchJob(name, next_event,
                                        [&](const v1::JobEvent& event) {
                                          next_event = event.number() + 1;
                                          attempt = 0;
                                          if (event.has_state())
                                            job = event.state();
                                          if (!session.json)
                                            printer.Print(event);
                                          return absl::OkStatus();
                                        });
    if (!absl::IsUnavailable(watched)) break;
  }
  if (!watched.ok()) return watched;
  PrintJob(session, job);
  return Outcome(job);
}

struct TrainOptions {
  std::string spec;
  std::string job_id;
  std::string request_id;
  bool watch = false;
};

absl::Status Train(Session& session, const TrainOptions& options) {
  auto spec = ReadTrainSpec(session.client(), UserPath(options.spec));
  if (!spec.ok()) return spec.status();
  v1::TrainRequest request;
  *request.mutable_spec() = *std::move(spec);
  request.set_job_id(options.job_id);
  request.set_request_id(options.request_id);
  const auto job = session.client().Train(request);
  if (!job.ok()) return job.status();
  if (options.watch) return WatchToEnd(session, job->name());
  PrintJob(session, *job);
  return absl::OkStatus();
}

absl::Status Jobs(Session& session) {
  const auto jobs = session.client().ListJobs();
  if (!jobs.ok()) return jobs.status();
  if (session.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const v1::Job& job : *jobs) list.push_back(ToJson(job));
    PrintJson({{"jobs", list}});
    return absl::OkStatus();
  }
  for (const v1::Job& job : *jobs) PrintJob(session, job);
  if (jobs->empty()) absl::PrintF("no jobs\n");
  return absl::OkStatus();
}

absl::Status Cancel(Session& session, const std::string& name) {
  const auto job = session.client().CancelJob(ResourceName("jobs", name));
  if (!job.ok()) return job.status();
  PrintJob(session, *job);
  return absl::OkStatus();
}

}  // namespace

void AddTrainingCommands(CLI::App& app, Session& session) {
  const auto options = std::make_shared<TrainOptions>();
  CLI::App* train =
      AddCommand(app, session, "train", "Submits a training job.",
                 "recurve train lm.textproto --watch",
                 [&session, options] { return Train(session, *options); });
  train->add_option("spec", options->spec, "TrainSpec textproto")->required();
  train->add_option("--job_id", options->job_id, "name of the job");
  train->add_option("--request_id", options->request_id,
                    "the same id again returns the same job");
  train->add_flag("--watch", options->watch, "show its progress to the end");

  AddCommand(app, session, "jobs", "Lists the jobs.", "recurve jobs",
             [&session] { return Jobs(session); });

  const auto name = std::make_shared<std::string>();
  AddCommand(app, session, "watch", "Shows a job's progress to its end.",
             "recurve watch my-job",
             [&session, name] {
               return WatchToEnd(session, ResourceName("jobs", *name));
             })
      ->add_option("job", *name, "the job")
      ->required();
  AddCommand(app, session, "cancel", "Stops a job at its next micro-batch.",
             "recurve cancel my-job",
             [&session, name] { return Cancel(session, *name); })
      ->add_option("job", *name, "the job")
      ->required();
}

}  // namespace recurve::cli
