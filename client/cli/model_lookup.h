// What a subcommand is told to use: a model, a version, or a trainer.
#ifndef RECURVE_CLIENT_CLI_MODEL_LOOKUP_H_
#define RECURVE_CLIENT_CLI_MODEL_LOOKUP_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/cpp/client.h"

namespace recurve::cli {

// Of `lm`, `models/lm/versions/2` or `trainers/t`: the name to send, the config
// and the vocabulary. Weights in training are described as a version that has
// no more than these.
absl::StatusOr<v1::ModelVersion> FindModel(Client& client,
                                           const std::string& name);

}  // namespace recurve::cli

#endif  // RECURVE_CLIENT_CLI_MODEL_LOOKUP_H_
