// The file in which a model's aliases are kept.
#ifndef RECURVE_ENGINE_SERVE_ALIAS_FILE_H_
#define RECURVE_ENGINE_SERVE_ALIAS_FILE_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace recurve {

using Aliases = std::map<std::string, int64_t>;  // `stable` -> version number

// None where there is no file; DataLoss names one that is damaged.
absl::StatusOr<Aliases> ReadAliases(const std::string& path);

// On disk when it returns OK. On an error the file holds what was in it before,
// `before`, unless the disk failed twice: then that or `after`.
absl::Status ReplaceAliases(const std::string& path, const Aliases& before,
                            const Aliases& after);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_ALIAS_FILE_H_
