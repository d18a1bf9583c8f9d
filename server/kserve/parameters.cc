#include "server/kserve/parameters.h"

#include <climits>

#include "absl/strings/str_cat.h"
#include "kernels/status.h"
#include "server/request_strings.h"

namespace recurve::server::kserve {
namespace {

using inference::InferParameter;

const InferParameter* Find(const ParameterMap& parameters,
                           absl::string_view name) {
  const auto found = parameters.find(std::string(name));
  return found == parameters.end() ? nullptr : &found->second;
}

absl::Status WrongType(absl::string_view name, absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("parameters.", name, ": must be ", expected));
}

absl::StatusOr<int64_t> Integer(absl::string_view name,
                                const InferParameter& parameter) {
  switch (parameter.parameter_choice_case()) {
    case InferParameter::kInt64Param:
      return parameter.int64_param();
    case InferParameter::kUint64Param:
      if (parameter.uint64_param() <= INT64_MAX) {
        return static_cast<int64_t>(parameter.uint64_param());
      }
      return absl::InvalidArgumentError(
          absl::StrCat("parameters.", name, ": is ", parameter.uint64_param(),
                       ", must be at most ", INT64_MAX));
    default:
      return WrongType(name, "a whole number");
  }
}

// The value, `absent` if there is none, or InvalidArgument outside of it.
absl::StatusOr<int64_t> IntegerWithin(const ParameterMap& parameters,
                                      absl::string_view name, int64_t absent,
                                      int64_t least, int64_t most) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> value,
                   IntegerParameter(parameters, name));
  if (!value.has_value()) return absent;
  if (*value >= least && *value <= most) return *value;
  return absl::InvalidArgumentError(absl::StrCat(
      "parameters.", name, ": is ", *value, ", must be ", least, " to ", most));
}

// Empty for a request that stands for itself.
absl::StatusOr<std::string> SequenceId(const ParameterMap& parameters) {
  constexpr char kName[] = "sequence_id";
  const InferParameter* const parameter = Find(parameters, kName);
  if (parameter == nullptr) return std::string();
  switch (parameter->parameter_choice_case()) {
    case InferParameter::kInt64Param:
      if (parameter->int64_param() == 0) return std::string();
      // Ids are unsigned; clients send the larger ones as negative numbers.
      return absl::StrCat("#", static_cast<uint64_t>(parameter->int64_param()));
    case InferParameter::kUint64Param:
      if (parameter->uint64_param() == 0) return std::string();
      return absl::StrCat("#", parameter->uint64_param());
    case InferParameter::kStringParam:
      if (parameter->string_param().empty()) return std::string();
      if (parameter->string_param().size() <= kMaxStringBytes / 2) {
        return absl::StrCat("=", parameter->string_param());
      }
      return absl::InvalidArgumentError(absl::StrCat(
          "parameters.sequence_id: has ", parameter->string_param().size(),
          " bytes, the limit is ", kMaxStringBytes / 2));
    default:
      return WrongType(kName, "a whole number or a string");
  }
}

absl::StatusOr<std::optional<SequencePart>> Sequence(
    const ParameterMap& parameters) {
  SequencePart part;
  ASSIGN_OR_RETURN(part.id, SequenceId(parameters));
  ASSIGN_OR_RETURN(part.start, BoolParameter(parameters, "sequence_start"));
  ASSIGN_OR_RETURN(part.end, BoolParameter(parameters, "sequence_end"));
  if (!part.id.empty()) return part;
  if (!part.start && !part.end) return std::nullopt;
  return absl::InvalidArgumentError(
      "parameters.sequence_id: is missing; sequence_start and sequence_end are "
      "of a sequence, whose id is not 0");
}

}  // namespace

absl::StatusOr<std::optional<int64_t>> IntegerParameter(
    const ParameterMap& parameters, absl::string_view name) {
  const InferParameter* const parameter = Find(parameters, name);
  if (parameter == nullptr) return std::nullopt;
  return Integer(name, *parameter);
}

absl::StatusOr<std::optional<std::string>> StringParameter(
    const ParameterMap& parameters, absl::string_view name) {
  const InferParameter* const parameter = Find(parameters, name);
  if (parameter == nullptr) return std::nullopt;
  if (parameter->has_string_param()) return parameter->string_param();
  return WrongType(name, "a string");
}

absl::StatusOr<bool> BoolParameter(const ParameterMap& parameters,
                                   absl::string_view name) {
  const InferParameter* const parameter = Find(parameters, name);
  if (parameter == nullptr) return false;
  if (parameter->has_bool_param()) return parameter->bool_param();
  return WrongType(name, "true or false");
}

absl::StatusOr<InferParameters> ReadParameters(const ParameterMap& parameters) {
  InferParameters result;
  ASSIGN_OR_RETURN(result.sequence, Sequence(parameters));
  ASSIGN_OR_RETURN(const int64_t priority,
                   IntegerWithin(parameters, "priority", 0, 0, INT_MAX));
  result.priority = static_cast<int>(priority);
  ASSIGN_OR_RETURN(const int64_t timeout,
                   IntegerWithin(parameters, "timeout", 0, 0, INT64_MAX));
  if (timeout > 0) result.timeout = absl::Microseconds(timeout);
  ASSIGN_OR_RETURN(result.top_k,
                   IntegerWithin(parameters, "top_k", 0, 1, INT_MAX));
  ASSIGN_OR_RETURN(
      result.enable_empty_final_response,
      BoolParameter(parameters, "triton_enable_empty_final_response"));
  return result;
}

}  // namespace recurve::server::kserve
