#include "engine/jobs/job_owner.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/status.h"

namespace recurve {

absl::StatusOr<LoopState> ToLoopState(Checkpoint checkpoint) {
  LoopState state;
  if (!state.progress.ParseFromString(checkpoint.details)) {
    return absl::DataLossError("the checkpoint's details are not a job's");
  }
  state.trainer = std::move(checkpoint.trainer);
  state.best_parameters = std::move(checkpoint.best_parameters);
  return state;
}

absl::StatusOr<Checkpoint> LoadNewest(CheckpointFolder& checkpoints,
                                      JobReporter& reporter,
                                      std::vector<std::string>* warnings) {
  absl::StatusOr<Checkpoint> checkpoint;
  RETURN_IF_ERROR(reporter.Keep([&]() -> absl::Status {
    checkpoint = checkpoints.LoadNewest(warnings);
    const absl::Status& status = checkpoint.status();
    if (absl::IsDataLoss(status)) return absl::OkStatus();  // for good
    if (status.ok() || absl::IsNotFound(status)) return status;
    RETURN_IF_ERROR(reporter.Warn(absl::StrCat(
        "the last checkpoint cannot be read for now: ", status.message())));
    return status;
  }));
  return checkpoint;
}

absl::Status JobOwner::Report(const JobMetrics& metrics,
                              const std::vector<DeviceTime>& devices) {
  return parts_.reporter.Report(metrics, devices);
}

absl::StatusOr<JobEvaluation> JobOwner::Evaluate(
    std::vector<float>& parameters) {
  TrainableModel model{parts_.run.start.model, parts_.run.start.vocabulary,
                       std::move(parameters)};
  auto evaluation = parts_.evaluate(model, *parts_.run.validation,
                                    parts_.memory, parts_.control.stopping());
  parameters = std::move(model.parameters);
  return evaluation;
}

absl::Status JobOwner::ReportEvaluation(const JobEvaluation& evaluation,
                                        bool best) {
  return parts_.reporter.ReportEvaluation(evaluation, best);
}

absl::Status JobOwner::Warn(absl::string_view text) {
  return parts_.reporter.Warn(text);
}

absl::Status JobOwner::Save(LoopState& state) {
  const absl::Duration begin = parts_.clock();
  Checkpoint checkpoint;
  checkpoint.model_config = parts_.run.start.model->config();
  checkpoint.vocabulary = parts_.run.start.vocabulary;
  checkpoint.details = state.progress.SerializeAsString();
  checkpoint.trainer = std::move(state.trainer);
  checkpoint.best_parameters = std::move(state.best_parameters);
  const auto saved = parts_.checkpoints.Save(checkpoint, parts_.keep_last);
  state.trainer = std::move(checkpoint.trainer);
  state.best_parameters = std::move(checkpoint.best_parameters);
  if (!saved.ok()) {
    return Warn(
        absl::StrCat("no checkpoint of step ", state.trainer.step,
                     ", the one before remains: ", saved.status().message()));
  }
  return parts_.reporter.ReportCheckpoint(
      {saved->step, saved->size_bytes,
       absl::ToDoubleSeconds(parts_.clock() - begin)});
}

absl::StatusOr<LoopState> JobOwner::LoadLast() {
  std::vector<std::string> warnings;
  auto checkpoint = LoadNewest(parts_.checkpoints, parts_.reporter, &warnings);
  for (const std::string& warning : warnings) RETURN_IF_ERROR(Warn(warning));
  RETURN_IF_ERROR(checkpoint.status());
  return ToLoopState(*std::move(checkpoint));
}

absl::StatusOr<int64_t> JobOwner::RollBackReports() {
  return parts_.reporter.RollBack();
}

}  // namespace recurve
