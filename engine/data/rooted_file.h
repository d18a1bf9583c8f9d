// Files beneath one folder, whatever a hostile path says.
#ifndef RECURVE_ENGINE_DATA_ROOTED_FILE_H_
#define RECURVE_ENGINE_DATA_ROOTED_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace recurve {

// The bytes of the regular file `path` beneath the folder `root`. Every step of
// the path is opened by itself and none may be a symbolic link, so nothing
// outside is reached, not even by a link put there meanwhile. (`root` itself
// may be a link.) InvalidArgument for an absolute path, `.`, `..`, an empty
// step, a link or what is not a regular file; NotFound; ResourceExhausted for
// more than `max_bytes`.
absl::StatusOr<std::string> ReadFileBeneath(const std::string& root,
                                            absl::string_view path,
                                            int64_t max_bytes);

}  // namespace recurve

#endif  // RECURVE_ENGINE_DATA_ROOTED_FILE_H_
