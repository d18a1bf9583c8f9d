#include "server/convert.h"

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/base/config.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/serve/model_name.h"
#include "kernels/status.h"

namespace recurve::server {
namespace {

#ifndef ABSL_IS_LITTLE_ENDIAN
#error "the wire's float32 numbers are little-endian, and so must this host be"
#endif

void AddDevices(const std::vector<DeviceTime>& devices,
                google::protobuf::RepeatedPtrField<v1::DeviceTime>* wire) {
  for (const DeviceTime& device : devices) {
    v1::DeviceTime& time = *wire->Add();
    time.set_device(device.device);
    time.set_micro_batches(device.micro_batches);
    time.set_rows(device.rows);
    time.set_compute_ms(device.compute_ms);
    time.set_exchange_ms(device.exchange_ms);
    time.set_update_ms(device.update_ms);
  }
}

v1::JobMetrics ToWire(const JobMetrics& metrics) {
  v1::JobMetrics wire;
  wire.set_step(metrics.step);
  wire.set_epoch(metrics.epoch);
  wire.set_loss(metrics.loss);
  wire.set_gradient_norm(metrics.gradient_norm);
  wire.set_learning_rate(metrics.learning_rate);
  wire.set_rows_per_second(metrics.rows_per_second);
  wire.set_seconds(metrics.seconds);
  wire.set_fraction_done(metrics.fraction_done);
  return wire;
}

v1::JobEvaluation ToWire(const JobEvaluation& evaluation) {
  v1::JobEvaluation wire;
  wire.set_step(evaluation.step);
  wire.set_loss(evaluation.loss);
  wire.set_accuracy(evaluation.accuracy);
  wire.set_weight(evaluation.weight);
  return wire;
}

v1::JobCheckpoint ToWire(const JobCheckpoint& checkpoint) {
  v1::JobCheckpoint wire;
  wire.set_step(checkpoint.step);
  wire.set_size_bytes(checkpoint.size_bytes);
  wire.set_seconds(checkpoint.seconds);
  return wire;
}

}  // namespace

absl::StatusOr<std::vector<float>> FloatsFromBytes(absl::string_view bytes,
                                                   absl::string_view field) {
  if (bytes.size() % sizeof(float) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": ", bytes.size(),
                     " bytes are not a whole number of float32 numbers"));
  }
  std::vector<float> floats(bytes.size() / sizeof(float));
  if (!floats.empty()) std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

std::string FloatsToBytes(absl::Span<const float> floats) {
  return std::string(reinterpret_cast<const char*>(floats.data()),
                     floats.size() * sizeof(float));
}

google::protobuf::Timestamp ToWire(absl::Time time) {
  google::protobuf::Timestamp wire;
  const int64_t seconds = absl::ToUnixSeconds(time);
  wire.set_seconds(seconds);
  wire.set_nanos(static_cast<int32_t>(
      absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
  return wire;
}

absl::StatusOr<SequenceBatch> FromWire(const v1::SequenceBatch& wire) {
  if (wire.cu_seqlens().empty()) {
    return absl::InvalidArgumentError(
        "batch.cu_seqlens: is empty; one offset more than there are sequences "
        "is needed, the first of them 0");
  }
  if (!wire.tokens().empty() && !wire.features().empty()) {
    return absl::InvalidArgumentError(
        "batch: has both tokens and features; a model takes one of them");
  }
  SequenceBatch batch;
  batch.cu_seqlens.assign(wire.cu_seqlens().begin(), wire.cu_seqlens().end());
  batch.tokens.assign(wire.tokens().begin(), wire.tokens().end());
  ASSIGN_OR_RETURN(batch.features,
                   FloatsFromBytes(wire.features(), "batch.features"));
  return batch;
}

absl::StatusOr<Targets> FromWire(const v1::Targets& wire) {
  Targets targets;
  targets.classes.assign(wire.classes().begin(), wire.classes().end());
  targets.weights.assign(wire.weights().begin(), wire.weights().end());
  ASSIGN_OR_RETURN(targets.values,
                   FloatsFromBytes(wire.values(), "targets.values"));
  return targets;
}

v1::SequenceBatch ToWire(const SequenceBatch& batch) {
  v1::SequenceBatch wire;
  wire.mutable_cu_seqlens()->Add(batch.cu_seqlens.begin(),
                                 batch.cu_seqlens.end());
  wire.mutable_tokens()->Add(batch.tokens.begin(), batch.tokens.end());
  wire.set_features(FloatsToBytes(batch.features));
  return wire;
}

v1::Targets ToWire(const Targets& targets) {
  v1::Targets wire;
  wire.mutable_classes()->Add(targets.classes.begin(), targets.classes.end());
  wire.mutable_weights()->Add(targets.weights.begin(), targets.weights.end());
  wire.set_values(FloatsToBytes(targets.values));
  return wire;
}

std::vector<std::string> ToVector(
    const google::protobuf::RepeatedPtrField<std::string>& strings) {
  return {strings.begin(), strings.end()};
}

v1::Model ToWire(const ModelSummary& summary) {
  v1::Model wire;
  wire.set_name(summary.name);
  if (summary.create_time != absl::InfinitePast()) {
    *wire.mutable_create_time() = ToWire(summary.create_time);
  }
  wire.set_latest_version(summary.latest_version);
  wire.set_version_count(static_cast<int32_t>(summary.version_count));
  const absl::string_view id = absl::StripPrefix(summary.name, "models/");
  for (const auto& [alias, number] : summary.aliases) {
    (*wire.mutable_aliases())[alias] = NameOfVersion(id, number);
  }
  return wire;
}

v1::ModelVersion ToWire(const ModelVersion& version, bool with_vocabulary) {
  v1::ModelVersion wire;
  wire.set_name(version.name);
  *wire.mutable_create_time() = ToWire(version.create_time);
  *wire.mutable_config() = version.model->config();
  wire.set_parameter_count(version.model->parameters().parameter_count());
  wire.set_state_size(
      version.model->bidirectional() ? 0 : version.model->state_size());
  if (with_vocabulary) {
    wire.mutable_vocabulary()->Add(version.vocabulary.begin(),
                                   version.vocabulary.end());
  }
  wire.set_sha256(version.sha256);
  wire.set_source(version.source);
  return wire;
}

v1::Dataset ToWire(const DatasetInfo& dataset) {
  v1::Dataset wire;
  wire.set_name(absl::StrCat("datasets/", dataset.id));
  *wire.mutable_create_time() = ToWire(dataset.create_time);
  wire.set_size_bytes(dataset.size_bytes);
  wire.set_sha256(dataset.sha256);
  return wire;
}

v1::PredictResponse ToWire(Prediction prediction) {
  v1::PredictResponse wire;
  wire.set_model_version(prediction.version->name);
  wire.set_rows(prediction.rows);
  wire.set_columns(prediction.columns);
  wire.set_logits(FloatsToBytes(prediction.logits));
  wire.set_probabilities(FloatsToBytes(prediction.probabilities));
  const size_t k = prediction.rows == 0
                       ? 0
                       : prediction.top_classes.size() / prediction.rows;
  for (int64_t r = 0; k > 0 && r < prediction.rows; ++r) {
    auto& top = *wire.add_top_k();
    const int32_t* classes = prediction.top_classes.data() + r * k;
    const float* probabilities = prediction.top_probabilities.data() + r * k;
    top.mutable_classes()->Add(classes, classes + k);
    top.mutable_probabilities()->Add(probabilities, probabilities + k);
  }
  wire.mutable_classes()->Add(prediction.classes.begin(),
                              prediction.classes.end());
  wire.set_hidden(FloatsToBytes(prediction.hidden));
  wire.set_hidden_columns(prediction.hidden_columns);
  wire.set_state(FloatsToBytes(prediction.state));
  return wire;
}

v1::EvaluateResponse ToWire(const ModelVersion& version,
                            const Evaluation& evaluation) {
  v1::EvaluateResponse wire;
  wire.set_model_version(version.name);
  wire.set_loss(evaluation.loss);
  wire.set_weight(evaluation.weight);
  wire.set_rows(evaluation.rows);
  wire.set_accuracy(evaluation.accuracy);
  return wire;
}

v1::StepResponse ToWire(const StepResult& result) {
  v1::StepResponse wire;
  wire.set_step(result.step);
  wire.set_updated(result.updated);
  wire.set_loss(result.loss);
  wire.set_weight(result.weight);
  wire.set_gradient_norm(result.gradient_norm);
  wire.set_learning_rate(result.learning_rate);
  wire.set_rows(result.rows);
  wire.set_accumulated_calls(result.accumulated_calls);
  AddDevices(result.devices, wire.mutable_devices());
  return wire;
}

v1::Job ToWire(const Job& job) {
  v1::Job wire;
  wire.set_name(absl::StrCat("jobs/", job.id));
  *wire.mutable_spec() = job.spec;
  wire.set_state(static_cast<v1::Job::State>(job.state));
  wire.set_cause(job.cause);
  *wire.mutable_create_time() = ToWire(job.create_time);
  if (job.start_time) *wire.mutable_start_time() = ToWire(*job.start_time);
  if (job.end_time) *wire.mutable_end_time() = ToWire(*job.end_time);
  wire.set_step(job.step);
  wire.set_max_steps(job.max_steps);
  wire.set_loss(job.loss);
  if (job.held_out_loss) wire.set_held_out_loss(*job.held_out_loss);
  wire.set_model_version(job.model_version);
  wire.set_owner(job.owner);
  wire.set_priority(job.priority);
  wire.set_runs(job.runs);
  wire.set_checkpoint_step(job.checkpoint_step);
  if (job.best) *wire.mutable_best() = ToWire(*job.best);
  wire.set_data_sha256(job.data_sha256);
  AddDevices(job.devices, wire.mutable_devices());
  return wire;
}

v1::JobEvent ToWire(const JobEvent& event) {
  v1::JobEvent wire;
  wire.set_number(event.number);
  *wire.mutable_time() = ToWire(event.time);
  std::visit(
      [&wire](const auto& what) {
        using What = std::decay_t<decltype(what)>;
        if constexpr (std::is_same_v<What, Job>) {
          *wire.mutable_state() = ToWire(what);
        } else if constexpr (std::is_same_v<What, JobMetrics>) {
          *wire.mutable_metrics() = ToWire(what);
        } else if constexpr (std::is_same_v<What, JobEvaluation>) {
          *wire.mutable_evaluation() = ToWire(what);
        } else if constexpr (std::is_same_v<What, JobCheckpoint>) {
          *wire.mutable_checkpoint() = ToWire(what);
        } else {
          wire.set_warning(what.text);
        }
      },
      event.what);
  return wire;
}

JobRequest FromWire(const v1::TrainRequest& wire) {
  return {wire.spec(), wire.job_id(), wire.request_id(), wire.owner(),
          wire.priority()};
}

}  // namespace recurve::server
