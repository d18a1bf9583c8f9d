// What a golden file's metadata says (docs of the format: SEMANTICS, golden
// files): the module that was run, as a ModelConfig, and how it was called.
#ifndef RECURVE_TESTS_GOLDEN_CASE_CONFIG_H_
#define RECURVE_TESTS_GOLDEN_CASE_CONFIG_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/safetensors.h"
#include "proto/recurve/v1/model_config.pb.h"

namespace recurve::golden {

struct CaseConfig {
  bool is_srupp = false;  // SRU++: nothing else is filled in
  bool is_sru = false;    // else QRNN

  v1::ModelConfig model;  // features in, rows of the one block out
  int64_t input_size = 0;
  bool training = false;         // with the masks in the file
  std::vector<int64_t> lengths;  // L of each call
  int64_t batch_size = 0;        // B
  bool has_mask = false;
  bool has_state = false;
  // Returned states are [layers * directions, B, H], not [layers, B, C].
  bool compatible_states = false;
  // Between two calls of a QRNN.
  bool carry_hidden = true;
  bool reset_between = false;
};

// InvalidArgument for anything that is not understood.
absl::StatusOr<CaseConfig> ReadCaseConfig(const MetadataMap& metadata);

}  // namespace recurve::golden

#endif  // RECURVE_TESTS_GOLDEN_CASE_CONFIG_H_
