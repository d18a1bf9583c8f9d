// train, jobs, watch, pause, resume, cancel, delete-job.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/data_files.h"
#include "client/cli/files.h"
#include "client/cli/follow.h"
#include "client/cli/interrupt.h"
#include "client/cli/progress.h"
#include "client/cli/session.h"

namespace recurve::cli {
namespace {

void PrintJob(const Session& session, const v1::Job& job) {
  if (session.json) return PrintJson(ToJson(job));
  absl::PrintF("%s\n", JobLine(job));
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

struct WatchOptions {
  std::string reconnect_for = "10m";
};

// What following `name` does in this session.
FollowHooks Hooks(Session& session, const std::string& name,
                  const WatchOptions& options, ProgressPrinter& printer) {
  FollowHooks hooks;
  hooks.watch = [&session, name](int64_t first_event,
                                 const FollowHooks::Sink& sink) {
    return session.client().WatchJob(name, first_event, sink);
  };
  hooks.show = [&session, &printer](const v1::JobEvent& event) {
    if (!session.json) printer.Print(event);
  };
  hooks.lost = [&printer, &options](const absl::Status& error) {
    printer.Note(absl::StrCat("no connection (", error.message(),
                              "); trying again for ", options.reconnect_for));
  };
  hooks.back = [&printer] { printer.Note("connected again"); };
  hooks.now = absl::Now;
  hooks.sleep = absl::SleepFor;
  return hooks;
}

// Shows a job's events until it has ended, then the job. Fails unless it
// succeeded.
absl::Status WatchToEnd(Session& session, const std::string& name,
                        const WatchOptions& options) {
  absl::Duration patience;
  absl::ParseDuration(options.reconnect_for, &patience);
  ProgressPrinter printer(stderr, TerminalColumns(stderr));
  const InterruptNotice notice(absl::StrCat(
      "\n", name, " goes on; `recurve watch ", name,
      "` shows it again, `recurve pause` and `recurve cancel` stop it\n"));
  const auto job = FollowJob(Hooks(session, name, options, printer), patience);
  if (!job.ok()) return job.status();
  PrintJob(session, *job);
  return Outcome(*job);
}

void AddWatchOptions(CLI::App& command, WatchOptions& options) {
  command
      .add_option("--reconnect_for", options.reconnect_for,
                  "how long to try again when the server is away: 90s, 10m, 1h")
      ->capture_default_str()
      ->check([](const std::string& text) -> std::string {
        absl::Duration patience;
        const bool valid = absl::ParseDuration(text, &patience) &&
                           patience >= absl::ZeroDuration();
        return valid ? "" : text + " is not a duration like 90s, 10m or 1h";
      });
}

struct TrainOptions {
  std::string spec;
  std::string job_id;
  std::string request_id;
  std::string owner;
  int32_t priority = 0;
  bool watch = false;
  WatchOptions watching;
};

absl::Status Train(Session& session, const TrainOptions& options) {
  auto spec = ReadTrainSpec(session.client(), UserPath(options.spec));
  if (!spec.ok()) return spec.status();
  v1::TrainRequest request;
  *request.mutable_spec() = *std::move(spec);
  request.set_job_id(options.job_id);
  request.set_request_id(options.request_id);
  request.set_owner(options.owner);
  request.set_priority(options.priority);
  const auto job = session.client().Train(request);
  if (!job.ok()) return job.status();
  if (options.watch) return WatchToEnd(session, job->name(), options.watching);
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

// A subcommand that changes one job by `call` and prints it.
void AddChangeCommand(
    CLI::App& app, Session& session, const std::string& command,
    const std::string& description,
    absl::StatusOr<v1::Job> (Client::*call)(const std::string& name)) {
  const auto name = std::make_shared<std::string>();
  AddCommand(app, session, command, description,
             absl::StrCat("recurve ", command, " my-job"),
             [&session, name, call] {
               const auto job =
                   (session.client().*call)(ResourceName("jobs", *name));
               if (job.ok()) PrintJob(session, *job);
               return job.status();
             })
      ->add_option("job", *name, "the job")
      ->required();
}

absl::Status DeleteJob(Session& session, const std::string& name) {
  const absl::Status deleted = session.client().DeleteJob(name);
  if (deleted.ok()) PrintDeleted(session, name);
  return deleted;
}

void AddDeleteCommand(CLI::App& app, Session& session) {
  const auto name = std::make_shared<std::string>();
  AddCommand(app, session, "delete-job",
             "Removes an ended job with its checkpoints and metrics.",
             "recurve delete-job my-job",
             [&session, name] {
               return DeleteJob(session, ResourceName("jobs", *name));
             })
      ->add_option("job", *name, "the job")
      ->required();
}

void AddTrainCommand(CLI::App& app, Session& session) {
  const auto options = std::make_shared<TrainOptions>();
  CLI::App* train =
      AddCommand(app, session, "train", "Submits a training job.",
                 "recurve train lm.textproto --watch",
                 [&session, options] { return Train(session, *options); });
  train->add_option("spec", options->spec, "TrainSpec textproto")->required();
  train->add_option("--job_id", options->job_id, "name of the job");
  train->add_option("--request_id", options->request_id,
                    "the same id again returns the same job");
  train->add_option("--owner", options->owner,
                    "whose job it is: owners share the devices fairly");
  train->add_option("--priority", options->priority,
                    "-100 to 100: of jobs that wait, higher ones go first");
  train->add_flag("--watch", options->watch, "show its progress to the end");
  AddWatchOptions(*train, options->watching);
}

void AddWatchCommand(CLI::App& app, Session& session) {
  const auto name = std::make_shared<std::string>();
  const auto options = std::make_shared<WatchOptions>();
  CLI::App* watch = AddCommand(
      app, session, "watch", "Shows a job's progress to its end.",
      "recurve watch my-job", [&session, name, options] {
        return WatchToEnd(session, ResourceName("jobs", *name), *options);
      });
  watch->add_option("job", *name, "the job")->required();
  AddWatchOptions(*watch, *options);
}

}  // namespace

void AddTrainingCommands(CLI::App& app, Session& session) {
  AddTrainCommand(app, session);
  AddCommand(app, session, "jobs", "Lists the jobs.", "recurve jobs",
             [&session] { return Jobs(session); });
  AddWatchCommand(app, session);
  AddChangeCommand(app, session, "pause",
                   "Saves a job and stops it at its next micro-batch.",
                   &Client::PauseJob);
  AddChangeCommand(app, session, "resume",
                   "Puts a paused job back into the queue.",
                   &Client::ResumeJob);
  AddChangeCommand(app, session, "cancel",
                   "Stops a job for good at its next micro-batch.",
                   &Client::CancelJob);
  AddDeleteCommand(app, session);
}

}  // namespace recurve::cli
