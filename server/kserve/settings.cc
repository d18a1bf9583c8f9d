#include "server/kserve/settings.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/model/tensor_data.h"
#include "kernels/status.h"

namespace recurve::server::kserve {
namespace {

inference::TraceSettingResponse CurrentTraceSettings() {
  inference::TraceSettingResponse response;
  (*response.mutable_settings())["trace_level"].add_value("OFF");
  return response;
}

inference::LogSettingsResponse CurrentLogSettings() {
  inference::LogSettingsResponse response;
  auto& settings = *response.mutable_settings();
  settings["log_file"].set_string_param("");
  settings["log_info"].set_bool_param(false);
  settings["log_warning"].set_bool_param(true);
  settings["log_error"].set_bool_param(true);
  settings["log_verbose_level"].set_uint32_param(0);
  settings["log_format"].set_string_param("default");
  return response;
}

bool IsDefault(const inference::TraceSettingRequest::SettingValue& value) {
  return value.value().empty();
}
bool IsDefault(const inference::LogSettingsRequest::SettingValue& value) {
  return value.parameter_choice_case() == value.PARAMETER_CHOICE_NOT_SET;
}

// The request's and the response's values are different types with the same
// fields.
template <typename Request, typename Response>
absl::Status CheckUnchanged(const Request& request, const Response& current,
                            absl::string_view kind) {
  for (const auto& [name, value] : request.settings()) {
    const auto found = current.settings().find(name);
    const bool same =
        found != current.settings().end() &&
        (IsDefault(value) ||
         value.SerializeAsString() == found->second.SerializeAsString());
    if (same) continue;
    return absl::UnimplementedError(
        absl::StrCat("settings: ", QuotedName(name), " cannot be set; ", kind));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<inference::TraceSettingResponse> TraceSettings(
    const inference::TraceSettingRequest& request) {
  auto current = CurrentTraceSettings();
  RETURN_IF_ERROR(
      CheckUnchanged(request, current, "this server writes no traces"));
  return current;
}

absl::StatusOr<inference::LogSettingsResponse> LogSettings(
    const inference::LogSettingsRequest& request) {
  auto current = CurrentLogSettings();
  RETURN_IF_ERROR(CheckUnchanged(
      request, current, "the log is warnings and errors on standard error"));
  return current;
}

}  // namespace recurve::server::kserve
