#include "engine/train/job_execution.h"

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/train/trainer.h"
#include "engine/train/training_loop.h"
#include "kernels/status.h"

namespace recurve {
namespace {

constexpr absl::string_view kStopCause = "the server shut down";

class Execution {
 public:
  Execution(const JobEnvironment& environment, const Job& job,
            JobControl& control)
      : environment_(environment),
        id_(job.id),
        spec_(job.spec),
        control_(control) {}

  absl::Status Run();

 private:
  absl::Status CheckCancelled() const;
  absl::Status Enter(JobState state, absl::string_view cause,
                     const std::function<void(Job&)>& change);
  // Trains to the end; EndReason of the loop.
  absl::StatusOr<std::string> Train(TrainingRun& run, Trainer& trainer);
  absl::StatusOr<std::optional<double>> Evaluate(const TrainingRun& run,
                                                 const TrainableModel& trained);

  const JobEnvironment& environment_;
  const std::string id_;
  const v1::TrainSpec spec_;
  JobControl& control_;
};

absl::Status Execution::CheckCancelled() const {
  return control_.stopping() ? absl::CancelledError("") : absl::OkStatus();
}

absl::Status Execution::Enter(JobState state, absl::string_view cause,
                              const std::function<void(Job&)>& change) {
  const absl::Status status =
      environment_.jobs.SetState(id_, state, cause, change).status();
  // Only a pause or a cancellation can have made the job leave its state.
  if (absl::IsFailedPrecondition(status)) return absl::CancelledError("");
  return status;
}

absl::StatusOr<std::string> Execution::Train(TrainingRun& run,
                                             Trainer& trainer) {
  TrainingLoop loop(spec_, run.max_batches, *run.loader, trainer,
                    [this](const JobMetrics& metrics,
                           const std::vector<DeviceTime>& devices) {
                      return environment_.jobs.Report(id_, metrics, devices);
                    });
  RETURN_IF_ERROR(loop.Run(control_.stopping()));
  return loop.EndReason();
}

absl::StatusOr<std::optional<double>> Execution::Evaluate(
    const TrainingRun& run, const TrainableModel& trained) {
  if (run.held_out == nullptr) return std::nullopt;
  ASSIGN_OR_RETURN(
      const JobEvaluation evaluation,
      environment_.evaluate(trained, *run.held_out, control_.stopping()));
  return evaluation.loss;
}

absl::Status Execution::Run() {
  ASSIGN_OR_RETURN(
      TrainingRun run,
      PrepareTrainingRun(spec_, environment_.datasets, environment_.models,
                         environment_.max_parameters));
  RETURN_IF_ERROR(CheckCancelled());
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Trainer> trainer,
      Trainer::Create(environment_.devices, run.start.model,
                      std::move(run.start.parameters), spec_.trainer()));
  RETURN_IF_ERROR(Enter(JobState::kRunning, "", [&](Job& job) {
    const int64_t accumulation = trainer->config().accumulation_steps();
    job.max_steps = run.max_batches.value_or(0) / accumulation;
  }));
  ASSIGN_OR_RETURN(const std::string reason, Train(run, *trainer));

  TrainableModel trained = run.start;
  ASSIGN_OR_RETURN(trained.parameters, trainer->Parameters());
  ASSIGN_OR_RETURN(const std::optional<double> held_out_loss,
                   Evaluate(run, trained));
  RETURN_IF_ERROR(CheckCancelled());
  ASSIGN_OR_RETURN(const std::string version,
                   environment_.models.Publish(spec_.model(), trained,
                                               absl::StrCat("jobs/", id_),
                                               absl::StrCat("jobs/", id_)));
  return Enter(JobState::kSucceeded, reason, [&](Job& job) {
    job.held_out_loss = held_out_loss;
    job.model_version = version;
  });
}

absl::Status RunWithoutExceptions(Execution& execution) {
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
absl::Status RecordEnd(JobStore& jobs, const std::string& id,
                       const absl::Status& status) {
  ASSIGN_OR_RETURN(const Job job, jobs.Get(id));
  if (!absl::IsCancelled(status)) {
    return jobs
        .SetState(id, JobState::kFailed,
                  status.ToString(absl::StatusToStringMode::kWithNoExtraData))
        .status();
  }
  const JobState state = AfterRestart(job.state);
  if (state == job.state) return absl::OkStatus();
  return jobs.SetState(id, state, job.cause.empty() ? kStopCause : job.cause)
      .status();
}

void RecordEndPatiently(const JobEnvironment& environment,
                        const std::string& id, const absl::Status& status,
                        JobControl& control) {
  while (true) {
    const absl::Status recorded = RecordEnd(environment.jobs, id, status);
    if (recorded.ok()) return;
    if (absl::IsFailedPrecondition(recorded)) continue;  // it has changed
    if (control.WaitForShutdown(environment.retry_delay)) return;
  }
}

}  // namespace

absl::Duration SteadyClock() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

void ExecuteJob(const JobEnvironment& environment, const Job& job,
                JobControl& control) {
  Execution execution(environment, job, control);
  const absl::Status status = RunWithoutExceptions(execution);
  if (status.ok()) return;
  RecordEndPatiently(environment, job.id, status, control);
}

}  // namespace recurve
