// How a model's version is shown.
#ifndef RECURVE_CLIENT_CLI_PRINT_VERSION_H_
#define RECURVE_CLIENT_CLI_PRINT_VERSION_H_

#include "client/cli/session.h"
#include "proto/recurve/v1/model.pb.h"

namespace recurve::cli {

// A line, or with --json the message.
void PrintVersion(const Session& session, const v1::ModelVersion& version);

}  // namespace recurve::cli

#endif  // RECURVE_CLIENT_CLI_PRINT_VERSION_H_
