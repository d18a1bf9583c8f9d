// What `recurve plan` shows: the memory that a model needs on devices, without
// a server. The one part of the client that links code of the engine, so that
// the numbers are the server's own.
#ifndef RECURVE_CLIENT_CLI_PLAN_H_
#define RECURVE_CLIENT_CLI_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/schedule/device_spec.h"
#include "engine/schedule/memory_plan.h"
#include "nlohmann/json.hpp"

namespace recurve::cli {

struct PlanOptions {
  std::string file;  // textproto: a ModelConfig or a TrainSpec
  std::string mode;  // training or inference; empty: training for a TrainSpec
  // Of a pass at inference, of a call in training. 0: a text's TrainSpec says
  // it; else 1024 rows, one sequence.
  int64_t rows = 0;
  int64_t sequences = 0;
  // Sizes that the file leaves to the data (0 there). An output that is left to
  // it too is as large as the vocabulary unless output_size says otherwise.
  int32_t vocabulary_size = 0;
  int32_t feature_size = 0;
  int32_t output_size = 0;
  std::string precision = "fp32";     // of inference: fp32, bf16 or int8
  std::string devices = "cpu:1";      // as the server's --devices
  double serving_memory_share = 0.2;  // as the server's
};

struct DevicePlan {
  DeviceSpec spec;
  int64_t serving_floor = 0;  // of its budget, what training leaves
  // False: cannot hold its part of the training, or serve at the precision.
  bool takes_part = true;
  MemoryPlan plan;
};

struct PlanReport {
  bool training = false;
  int64_t rows = 0;
  int64_t sequences = 0;
  // Of training.
  int64_t micro_batch_rows = 0;
  int64_t micro_batches = 0;  // at most, in a call
  std::vector<DevicePlan> devices;
};

// Sequences are of equal length, rows / sequences rounded up. A ModelConfig is
// trained with two moments (Adam) and 1024 micro_batch_rows.
//
// InvalidArgument names what is wrong in the file or the options;
// ResourceExhausted, as Train would answer, for what no device can hold.
absl::StatusOr<PlanReport> MakePlan(const PlanOptions& options);

std::string ToText(const PlanReport& report);
nlohmann::json ToJson(const PlanReport& report);

}  // namespace recurve::cli

#endif  // RECURVE_CLIENT_CLI_PLAN_H_
