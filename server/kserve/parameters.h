// What requests say beside their tensors, in parameters.
#ifndef RECURVE_SERVER_KSERVE_PARAMETERS_H_
#define RECURVE_SERVER_KSERVE_PARAMETERS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/map.h"
#include "proto/inference/inference.pb.h"

namespace recurve::server::kserve {

using ParameterMap =
    google::protobuf::Map<std::string, inference::InferParameter>;

// Of one parameter, absent if it is not there. InvalidArgument for another type
// and, since clients differ in the signedness of theirs, for an unsigned number
// beyond int64.
absl::StatusOr<std::optional<int64_t>> IntegerParameter(
    const ParameterMap& parameters, absl::string_view name);
absl::StatusOr<std::optional<std::string>> StringParameter(
    const ParameterMap& parameters, absl::string_view name);
absl::StatusOr<bool> BoolParameter(const ParameterMap& parameters,
                                   absl::string_view name);  // false if absent

// A request's part of a live sequence.
struct SequencePart {
  // Of numbers `#42`, of strings `=` and the string: never the same.
  std::string id;
  bool start = false;
  bool end = false;
};

struct InferParameters {
  std::optional<SequencePart> sequence;
  int priority = 0;  // 1 goes first; 0: the server's default
  absl::Duration timeout = absl::InfiniteDuration();
  int64_t top_k = 0;
  bool enable_empty_final_response = false;
};

// Of a request; parameters that are not known say nothing. InvalidArgument
// names the parameter, its value and what it can be.
absl::StatusOr<InferParameters> ReadParameters(const ParameterMap& parameters);

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_PARAMETERS_H_
