// Settings of traces and of the log. This server writes no traces, and its log
// is warnings and errors on standard error: both can be asked for, and set to
// what they are.
#ifndef RECURVE_SERVER_KSERVE_SETTINGS_H_
#define RECURVE_SERVER_KSERVE_SETTINGS_H_

#include "absl/status/statusor.h"
#include "proto/inference/settings.pb.h"

namespace recurve::server::kserve {

// Unimplemented names the setting that would have to change.
absl::StatusOr<inference::TraceSettingResponse> TraceSettings(
    const inference::TraceSettingRequest& request);
absl::StatusOr<inference::LogSettingsResponse> LogSettings(
    const inference::LogSettingsRequest& request);

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_SETTINGS_H_
