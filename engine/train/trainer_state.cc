#include "engine/train/trainer_state.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/status.h"

namespace recurve {
namespace {

absl::Status CheckBuffer(absl::string_view name,
                         const std::vector<float>& buffer, int64_t expected) {
  if (static_cast<int64_t>(buffer.size()) == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": ", buffer.size(), " numbers, must be ", expected));
}

absl::Status CheckCounts(const TrainerState& state) {
  const bool accumulates = state.accumulated_calls > 0;
  const auto bad = [](absl::string_view field, const absl::AlphaNum& value,
                      absl::string_view allowed) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": is ", value, ", must be ", allowed));
  };
  if (state.step < 0) return bad("step", state.step, "0 or more");
  if (state.skipped_steps < 0 || state.skipped_steps > state.step) {
    return bad("skipped_steps", state.skipped_steps,
               absl::StrCat("0 to step, ", state.step));
  }
  if (state.accumulated_calls < 0) {
    return bad("accumulated_calls", state.accumulated_calls, "0 or more");
  }
  if (!std::isfinite(state.accumulated_weight) ||
      accumulates != (state.accumulated_weight > 0)) {
    return bad("accumulated_weight", state.accumulated_weight,
               accumulates ? "above 0 and finite" : "0: no calls are there");
  }
  if (!(state.learning_rate_scale > 0) ||
      !std::isfinite(state.learning_rate_scale)) {
    return bad("learning_rate_scale", state.learning_rate_scale,
               "above 0 and finite");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckParameters(const Model& model,
                             const std::vector<float>& parameters) {
  return CheckBuffer("parameters", parameters,
                     model.parameters().buffer_size());
}

absl::Status CheckTrainerState(const Model& model, int num_moments,
                               const TrainerState& state) {
  const int64_t size = model.parameters().buffer_size();
  RETURN_IF_ERROR(CheckCounts(state));
  RETURN_IF_ERROR(CheckParameters(model, state.parameters));
  RETURN_IF_ERROR(CheckBuffer("first_moment", state.first_moment,
                              num_moments >= 1 ? size : 0));
  RETURN_IF_ERROR(CheckBuffer("second_moment", state.second_moment,
                              num_moments >= 2 ? size : 0));
  RETURN_IF_ERROR(CheckBuffer("accumulated_gradient",
                              state.accumulated_gradient,
                              state.accumulated_calls > 0 ? size : 0));
  return CheckStreams(model, state.streams);
}

}  // namespace recurve
