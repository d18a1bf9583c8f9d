// Between wire messages and the engine's types. What the engine checks (token
// ranges, sizes that a model asks for) is not checked here.
#ifndef RECURVE_SERVER_CONVERT_H_
#define RECURVE_SERVER_CONVERT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/data/dataset_store.h"
#include "engine/jobs/job.h"
#include "engine/model/sequence_batch.h"
#include "engine/serve/evaluator.h"
#include "engine/serve/predictor.h"
#include "engine/serve/registry.h"
#include "engine/train/trainer.h"
#include "google/protobuf/repeated_field.h"
#include "google/protobuf/timestamp.pb.h"
#include "proto/recurve/v1/compute.pb.h"
#include "proto/recurve/v1/data.pb.h"
#include "proto/recurve/v1/devices.pb.h"
#include "proto/recurve/v1/jobs.pb.h"
#include "proto/recurve/v1/model.pb.h"

namespace recurve::server {

// Little-endian float32. InvalidArgument for a length that is no multiple of 4.
absl::StatusOr<std::vector<float>> FloatsFromBytes(absl::string_view bytes,
                                                   absl::string_view field);
std::string FloatsToBytes(absl::Span<const float> floats);

google::protobuf::Timestamp ToWire(absl::Time time);

// InvalidArgument without offsets, with both kinds of input, or for features
// that are not float32 numbers.
absl::StatusOr<SequenceBatch> FromWire(const v1::SequenceBatch& batch);
absl::StatusOr<Targets> FromWire(const v1::Targets& targets);
v1::SequenceBatch ToWire(const SequenceBatch& batch);
v1::Targets ToWire(const Targets& targets);

std::vector<std::string> ToVector(
    const google::protobuf::RepeatedPtrField<std::string>& strings);

v1::Model ToWire(const ModelSummary& summary);
v1::ModelVersion ToWire(const ModelVersion& version, bool with_vocabulary);
v1::Dataset ToWire(const DatasetInfo& dataset);
v1::PredictResponse ToWire(Prediction prediction);
v1::EvaluateResponse ToWire(const ModelVersion& version,
                            const Evaluation& evaluation);
v1::StepResponse ToWire(const StepResult& result);
v1::Job ToWire(const Job& job);
v1::JobEvent ToWire(const JobEvent& event);
JobRequest FromWire(const v1::TrainRequest& wire);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_CONVERT_H_
