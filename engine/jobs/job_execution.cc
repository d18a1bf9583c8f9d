#include "engine/jobs/job_execution.h"

#include <chrono>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/directory.h"
#include "engine/jobs/evaluation_plans.h"
#include "engine/jobs/job_owner.h"
#include "engine/jobs/job_reporter.h"
#include "engine/jobs/training_loop.h"
#include "engine/train/checkpoint_folder.h"
#include "engine/train/train_spec.h"
#include "engine/train/trainer.h"
#include "kernels/status.h"

namespace recurve {
namespace {

constexpr absl::string_view kStopCause = "the server shut down";

// How a run ends in the store.
struct Outcome {
  JobState state = JobState::kFailed;
  std::string cause;
  std::function<void(Job&)> change;
};

// What goes through the model when it is evaluated.
int64_t RowsOf(const Dataset& data) {
  if (const auto* text = std::get_if<TextDataset>(&data)) {
    return static_cast<int64_t>(text->tokens.size()) - 1;
  }
  return std::get<SequenceDataset>(data).sequences.num_rows();
}

class Execution {
 public:
  Execution(const JobEnvironment& environment, const Job& job,
            JobControl& control)
      : environment_(environment),
        job_(job),
        spec_(job_.spec),
        control_(control),
        folder_(absl::StrCat(environment.directory, "/", job.id)),
        reporter_(environment.jobs, job_, folder_, control,
                  environment.retry_delay) {}

  // SUCCEEDED with all that goes with it; errors as they come.
  absl::StatusOr<Outcome> Run();
  // Once the store has the end of the job.
  void CleanUp(JobState state);

 private:
  absl::Status OpenFolder();
  // The spec says it; else the newest version of the model may be another one
  // by now.
  bool HasFixedStart() const {
    return spec_.has_config() || !spec_.from_version().empty();
  }
  // After that error of the last checkpoint.
  bool MayBeginAnew(const absl::Status& status) const {
    return absl::IsNotFound(status) ||
           (absl::IsDataLoss(status) && HasFixedStart());
  }
  // The state to go on from; none: from the beginning.
  absl::StatusOr<std::optional<LoopState>> LoadCheckpoint();
  absl::StatusOr<TrainingRun> Prepare(const std::optional<LoopState>& last);
  // Before hours of training, not after them.
  absl::Status CheckEvaluations(const TrainingRun& run) const;
  absl::Status CheckUnchanged(const TrainingRun& run,
                              const std::optional<LoopState>& last) const;
  absl::Status EnterRunning(const TrainingRun& run,
                            const std::optional<LoopState>& last);
  absl::StatusOr<Outcome> Train(TrainingRun& run,
                                std::optional<LoopState> last);
  TrainerOptions MemoryOf(const TrainingRun& run);
  absl::Status SaveFirst(TrainingLoop& loop);
  absl::StatusOr<Outcome> TrainAndPublish(const TrainingRun& run,
                                          Trainer& trainer, TrainingLoop& loop);
  absl::Status CheckStopping() const;

  const JobEnvironment& environment_;
  const Job job_;
  const v1::TrainSpec& spec_;
  JobControl& control_;
  const std::string folder_;
  JobReporter reporter_;
  std::optional<CheckpointFolder> checkpoints_;
  TrainableModel resumed_model_;  // of the last checkpoint
};

absl::Status Execution::CheckStopping() const {
  return control_.stopping() ? absl::CancelledError("") : absl::OkStatus();
}

absl::Status Execution::OpenFolder() {
  SweepAside(folder_);  // of the metrics files
  ASSIGN_OR_RETURN(checkpoints_, CheckpointFolder::Open(
                                     absl::StrCat(folder_, "/checkpoints")));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<LoopState>> Execution::LoadCheckpoint() {
  std::vector<std::string> warnings;
  auto checkpoint = LoadNewest(*checkpoints_, reporter_, &warnings);
  std::optional<LoopState> last;
  if (checkpoint.ok()) {
    ASSIGN_OR_RETURN(resumed_model_.model,
                     Model::Create(checkpoint->model_config));
    resumed_model_.vocabulary = checkpoint->vocabulary;
    resumed_model_.parameters = checkpoint->trainer.parameters;
    ASSIGN_OR_RETURN(last, ToLoopState(*std::move(checkpoint)));
  } else if (!MayBeginAnew(checkpoint.status())) {
    return checkpoint.status();
  }
  RETURN_IF_ERROR(reporter_.Open(last ? last->progress.first_event() : 0));
  for (const std::string& warning : warnings) {
    RETURN_IF_ERROR(reporter_.Warn(warning));
  }
  return last;
}

absl::StatusOr<TrainingRun> Execution::Prepare(
    const std::optional<LoopState>& last) {
  if (last) {
    return ResumeTrainingRun(
        spec_, environment_.datasets, std::move(resumed_model_),
        last->progress.data_sha256(), &control_.stopping());
  }
  return PrepareTrainingRun(spec_, environment_.datasets, environment_.models,
                            environment_.max_parameters, &control_.stopping());
}

absl::Status Execution::CheckEvaluations(const TrainingRun& run) const {
  const auto check = [&](absl::string_view field, const Dataset* data) {
    const int64_t rows = data == nullptr ? 0 : RowsOf(*data);
    if (rows <= environment_.max_evaluation_rows) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat(field, ": has ", rows, " rows, the limit is ",
                     environment_.max_evaluation_rows));
  };
  RETURN_IF_ERROR(check("validation", run.validation.get()));
  return check("held_out_characters", run.held_out.get());
}

absl::Status Execution::CheckUnchanged(
    const TrainingRun& run, const std::optional<LoopState>& last) const {
  RETURN_IF_ERROR(CheckSameData("data", job_.data_sha256, run.data_sha256));
  if (!last) return absl::OkStatus();
  return CheckSameData("validation.source", last->progress.validation_sha256(),
                       run.validation_sha256);
}

absl::Status Execution::EnterRunning(const TrainingRun& run,
                                     const std::optional<LoopState>& last) {
  const std::string cause =
      last ? absl::StrCat("goes on from step ", last->trainer.step) : "";
  const absl::Status status = reporter_
                                  .SetState(JobState::kRunning, cause,
                                            [&](Job& job) {
                                              job.max_steps =
                                                  run.max_batches.value_or(0) /
                                                  AccumulationSteps(spec_);
                                              job.data_sha256 = run.data_sha256;
                                            })
                                  .status();
  // Only a request to stop can have made the job leave its state.
  return absl::IsFailedPrecondition(status) ? absl::CancelledError("") : status;
}

absl::StatusOr<Outcome> Execution::Run() {
  RETURN_IF_ERROR(OpenFolder());
  ASSIGN_OR_RETURN(std::optional<LoopState> last, LoadCheckpoint());
  ASSIGN_OR_RETURN(TrainingRun run, Prepare(last));
  RETURN_IF_ERROR(CheckUnchanged(run, last));
  RETURN_IF_ERROR(CheckEvaluations(run));
  return Train(run, std::move(last));
}

// All that the run can need, reserved before it begins.
TrainerOptions Execution::MemoryOf(const TrainingRun& run) {
  TrainerOptions options;
  options.owner = absl::StrCat("jobs/", job_.id);
  options.calls = run.calls;
  options.beside =
      EvaluationPlans(environment_.held_out.plans, *run.start.model,
                      run.validation, run.held_out);
  Ledger::Wait& wait = options.wait.emplace();
  wait.cancelled = &control_.stopping();
  wait.on_wait = [this](const std::string& reason) {
    (void)reporter_.ReportWait(absl::StrCat("waits for memory: ", reason));
  };
  return options;
}

absl::StatusOr<Outcome> Execution::Train(TrainingRun& run,
                                         std::optional<LoopState> last) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Trainer> trainer,
                   Trainer::Create(environment_.devices, run.start.model,
                                   std::move(run.start.parameters),
                                   spec_.trainer(), MemoryOf(run)));
  JobOwner owner({run, environment_.held_out.evaluate, trainer->beside(),
                  *checkpoints_, KeepLastCheckpoints(spec_), reporter_,
                  control_, environment_.clock});
  TrainingLoop loop(spec_, run.max_batches, *run.loader, *trainer, owner,
                    environment_.clock);
  RETURN_IF_ERROR(EnterRunning(run, last));
  if (last) {
    RETURN_IF_ERROR(loop.Resume(*std::move(last)));
  } else {
    loop.progress().set_data_sha256(run.data_sha256);
    loop.progress().set_validation_sha256(run.validation_sha256);
    RETURN_IF_ERROR(SaveFirst(loop));
  }
  auto outcome = TrainAndPublish(run, *trainer, loop);
  const bool goes_on = control_.requested() == StopRequest::kPause ||
                       control_.requested() == StopRequest::kShutdown;
  if (absl::IsCancelled(outcome.status()) && goes_on) {
    RETURN_IF_ERROR(loop.Save());
  }
  return outcome;
}

// From here on neither the registry nor the seed is asked again. Where nothing
// else says what the job began with, it does not go on without.
absl::Status Execution::SaveFirst(TrainingLoop& loop) {
  while (true) {
    RETURN_IF_ERROR(loop.Save());
    if (HasFixedStart() || !checkpoints_->list().empty()) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(CheckStopping());
    control_.WaitForShutdown(environment_.retry_delay);
  }
}

absl::StatusOr<Outcome> Execution::TrainAndPublish(const TrainingRun& run,
                                                   Trainer& trainer,
                                                   TrainingLoop& loop) {
  RETURN_IF_ERROR(loop.Run(control_.stopping()));
  TrainableModel trained{run.start.model, run.start.vocabulary, {}};
  const v1::TrainSpec::Publish publish = PublishedWeights(spec_);
  if (publish == v1::TrainSpec::BEST) {
    trained.parameters = loop.best_parameters();
  } else {
    ASSIGN_OR_RETURN(trained.parameters, trainer.Parameters());
  }
  std::optional<double> held_out_loss;
  if (run.held_out != nullptr) {
    ASSIGN_OR_RETURN(
        const JobEvaluation evaluation,
        environment_.held_out.evaluate(trained, *run.held_out, trainer.beside(),
                                       control_.stopping()));
    held_out_loss = evaluation.loss;
  }
  RETURN_IF_ERROR(CheckStopping());
  std::string version;
  if (publish != v1::TrainSpec::NONE) {
    const std::string name = absl::StrCat("jobs/", job_.id);
    // Once for the job, however often its end is run; but not for an earlier
    // job of this id whose record is lost.
    const std::string request_id =
        absl::StrCat(name, "/", absl::ToUnixNanos(job_.create_time));
    ASSIGN_OR_RETURN(version, environment_.models.Publish(
                                  spec_.model(), trained, name, request_id));
  }
  return Outcome{JobState::kSucceeded, loop.EndReason(),
                 [held_out_loss, version](Job& job) {
                   job.held_out_loss = held_out_loss;
                   job.model_version = version;
                 }};
}

void Execution::CleanUp(JobState state) {
  reporter_.FinishFiles();
  if (HasEnded(state) && checkpoints_) checkpoints_->Prune(1);
}

absl::StatusOr<Outcome> RunWithoutExceptions(Execution& execution) {
  try {
    return execution.Run();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::exception& exception) {
    return absl::InternalError(exception.what());
  }
}

// What a run leaves that did not succeed: after a stop what the record says
// that the stop was for, which a request may change at any time.
Outcome WithoutSuccess(const Job& job, StopRequest requested,
                       const absl::Status& status) {
  if (!absl::IsCancelled(status)) {
    return {JobState::kFailed,
            status.ToString(absl::StatusToStringMode::kWithNoExtraData),
            nullptr};
  }
  const bool shutdown = requested == StopRequest::kShutdown;
  return {AfterRestart(job.state),
          shutdown ? std::string(kStopCause) : job.cause, nullptr};
}

// The state that the job has now.
absl::StatusOr<JobState> TryToEnd(JobStore& jobs, const std::string& id,
                                  StopRequest requested,
                                  const absl::StatusOr<Outcome>& result) {
  ASSIGN_OR_RETURN(const Job job, jobs.Get(id));
  const Outcome outcome =
      result.ok() ? *result : WithoutSuccess(job, requested, result.status());
  // It has ended, or something else has become of it.
  if (!MayFollow(job.state, outcome.state)) return job.state;
  RETURN_IF_ERROR(
      jobs.SetState(id, outcome.state, outcome.cause, outcome.change).status());
  return outcome.state;
}

}  // namespace

absl::Duration SteadyClock() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

void ExecuteJob(const JobEnvironment& environment, const Job& job,
                JobControl& control) {
  Execution execution(environment, job, control);
  const absl::StatusOr<Outcome> result = RunWithoutExceptions(execution);
  while (true) {
    const auto state =
        TryToEnd(environment.jobs, job.id, control.requested(), result);
    if (state.ok()) return execution.CleanUp(*state);
    if (absl::IsNotFound(state.status())) return;
    // The job was told to stop just now: it has another state.
    if (absl::IsFailedPrecondition(state.status())) continue;
    // A full disk may have room again.
    if (control.WaitForShutdown(environment.retry_delay)) return;
  }
}

}  // namespace recurve
