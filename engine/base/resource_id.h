// The names that users give to models, datasets, jobs and trainers.
#ifndef RECURVE_ENGINE_BASE_RESOURCE_ID_H_
#define RECURVE_ENGINE_BASE_RESOURCE_ID_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace recurve {

// [a-z0-9] then [a-z0-9._-], at most 63 in all, so an id is also a safe file
// name; InvalidArgument says so. `what` names the field in the message.
absl::Status CheckResourceId(absl::string_view id, absl::string_view what);

}  // namespace recurve

#endif  // RECURVE_ENGINE_BASE_RESOURCE_ID_H_
