// What models there are, and which of them take requests.
#ifndef RECURVE_SERVER_KSERVE_REPOSITORY_H_
#define RECURVE_SERVER_KSERVE_REPOSITORY_H_

#include "absl/status/status.h"
#include "engine/serve/registry.h"
#include "engine/serve/version_states.h"
#include "proto/inference/repository.pb.h"

namespace recurve::server::kserve {

// Every version of every model, or, if the request wants, those alone that take
// requests.
inference::RepositoryIndexResponse IndexOf(
    const Registry& registry, const VersionStates& states,
    const inference::RepositoryIndexRequest& request);

// Of the model's newest version. Load waits for it. Unimplemented for
// parameters that would change the model: those that are not known.
absl::Status Load(VersionStates& states,
                  const inference::RepositoryModelLoadRequest& request);
absl::Status Unload(VersionStates& states,
                    const inference::RepositoryModelUnloadRequest& request);

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_REPOSITORY_H_
