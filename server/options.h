// What the command line and the configuration file say.
#ifndef RECURVE_SERVER_OPTIONS_H_
#define RECURVE_SERVER_OPTIONS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/config.pb.h"

namespace recurve::server {

struct Options {
  ServerConfig config;  // paths absolute, or relative to the process's folder
  absl::Duration drain_timeout;
};

// `arguments` without the program's name. Relative paths (--config, and
// the other paths wherever they are given) begin at `working_directory`
// unless that is empty.
absl::StatusOr<Options> ParseOptions(absl::Span<const std::string> arguments,
                                     const std::string& working_directory);

std::string Help();

}  // namespace recurve::server

#endif  // RECURVE_SERVER_OPTIONS_H_
