#include "engine/jobs/job_record.h"

#include <variant>

#include "engine/jobs/evaluation_record.h"
#include "engine/jobs/job_record.pb.h"
#include "engine/train/device_time_record.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// --- To records ---

records::Job ToRecord(const Job& job) {
  records::Job record;
  record.set_id(job.id);
  *record.mutable_spec() = job.spec;
  record.set_owner(job.owner);
  record.set_priority(job.priority);
  record.set_state(static_cast<int32_t>(job.state));
  record.set_cause(job.cause);
  record.set_create_time(absl::ToUnixNanos(job.create_time));
  if (job.start_time) record.set_start_time(absl::ToUnixNanos(*job.start_time));
  if (job.end_time) record.set_end_time(absl::ToUnixNanos(*job.end_time));
  record.set_runs(job.runs);
  record.set_fruitless_starts(job.fruitless_starts);
  record.set_step(job.step);
  record.set_max_steps(job.max_steps);
  record.set_loss(job.loss);
  record.set_checkpoint_step(job.checkpoint_step);
  if (job.best) *record.mutable_best() = ToRecord(*job.best);
  if (job.held_out_loss) record.set_held_out_loss(*job.held_out_loss);
  record.set_data_sha256(job.data_sha256);
  record.set_model_version(job.model_version);
  for (const DeviceTime& device : job.devices) {
    *record.add_devices() = ToRecord(device);
  }
  return record;
}

records::Metrics ToRecord(const JobMetrics& metrics) {
  records::Metrics record;
  record.set_step(metrics.step);
  record.set_epoch(metrics.epoch);
  record.set_loss(metrics.loss);
  record.set_gradient_norm(metrics.gradient_norm);
  record.set_learning_rate(metrics.learning_rate);
  record.set_rows_per_second(metrics.rows_per_second);
  record.set_seconds(metrics.seconds);
  record.set_fraction_done(metrics.fraction_done);
  return record;
}

records::Checkpoint ToRecord(const JobCheckpoint& checkpoint) {
  records::Checkpoint record;
  record.set_step(checkpoint.step);
  record.set_size_bytes(checkpoint.size_bytes);
  record.set_seconds(checkpoint.seconds);
  return record;
}

// One function for each kind of event.
struct SetWhat {
  records::Event& record;

  void operator()(const Job& job) { *record.mutable_job() = ToRecord(job); }
  void operator()(const JobMetrics& metrics) {
    *record.mutable_metrics() = ToRecord(metrics);
  }
  void operator()(const JobWarning& warning) {
    record.mutable_warning()->set_text(warning.text);
  }
  void operator()(const JobEvaluation& evaluation) {
    *record.mutable_evaluation() = ToRecord(evaluation);
  }
  void operator()(const JobCheckpoint& checkpoint) {
    *record.mutable_checkpoint() = ToRecord(checkpoint);
  }
};

// --- From records ---

using recurve::FromRecord;  // those of the shared records, too

absl::Status Damaged() {
  return absl::DataLossError("a record of the job store is damaged");
}

absl::StatusOr<Job> FromRecord(const records::Job& record) {
  Job job;
  job.id = record.id();
  job.spec = record.spec();
  job.owner = record.owner();
  job.priority = record.priority();
  job.state = static_cast<JobState>(record.state());
  if (JobStateName(job.state) == "?") return Damaged();
  job.cause = record.cause();
  job.create_time = absl::FromUnixNanos(record.create_time());
  if (record.has_start_time()) {
    job.start_time = absl::FromUnixNanos(record.start_time());
  }
  if (record.has_end_time()) {
    job.end_time = absl::FromUnixNanos(record.end_time());
  }
  job.runs = record.runs();
  job.fruitless_starts = record.fruitless_starts();
  job.step = record.step();
  job.max_steps = record.max_steps();
  job.loss = record.loss();
  job.checkpoint_step = record.checkpoint_step();
  if (record.has_best()) job.best = FromRecord(record.best());
  if (record.has_held_out_loss()) job.held_out_loss = record.held_out_loss();
  job.data_sha256 = record.data_sha256();
  job.model_version = record.model_version();
  for (const records::DeviceTime& device : record.devices()) {
    job.devices.push_back(FromRecord(device));
  }
  return job;
}

JobMetrics FromRecord(const records::Metrics& record) {
  JobMetrics metrics;
  metrics.step = record.step();
  metrics.epoch = record.epoch();
  metrics.loss = record.loss();
  metrics.gradient_norm = record.gradient_norm();
  metrics.learning_rate = record.learning_rate();
  metrics.rows_per_second = record.rows_per_second();
  metrics.seconds = record.seconds();
  metrics.fraction_done = record.fraction_done();
  return metrics;
}

JobCheckpoint FromRecord(const records::Checkpoint& record) {
  return {record.step(), record.size_bytes(), record.seconds()};
}

absl::StatusOr<decltype(JobEvent::what)> WhatFromRecord(
    const records::Event& record) {
  switch (record.what_case()) {
    case records::Event::kJob: {
      ASSIGN_OR_RETURN(Job job, FromRecord(record.job()));
      return job;
    }
    case records::Event::kMetrics:
      return FromRecord(record.metrics());
    case records::Event::kWarning:
      return JobWarning{record.warning().text()};
    case records::Event::kEvaluation:
      return FromRecord(record.evaluation());
    case records::Event::kCheckpoint:
      return FromRecord(record.checkpoint());
    case records::Event::WHAT_NOT_SET:
      break;
  }
  return Damaged();
}

}  // namespace

std::string JobToBytes(const Job& job) {
  return ToRecord(job).SerializeAsString();
}

std::string EventToBytes(const JobEvent& event) {
  records::Event record;
  record.set_number(event.number);
  record.set_time(absl::ToUnixNanos(event.time));
  std::visit(SetWhat{record}, event.what);
  return record.SerializeAsString();
}

absl::StatusOr<Job> JobFromBytes(const std::string& bytes) {
  records::Job record;
  if (!record.ParseFromString(bytes)) return Damaged();
  return FromRecord(record);
}

absl::StatusOr<JobEvent> EventFromBytes(const std::string& bytes) {
  records::Event record;
  if (!record.ParseFromString(bytes)) return Damaged();
  JobEvent event;
  event.number = record.number();
  event.time = absl::FromUnixNanos(record.time());
  ASSIGN_OR_RETURN(event.what, WhatFromRecord(record));
  return event;
}

}  // namespace recurve
