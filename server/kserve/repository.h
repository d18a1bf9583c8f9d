// What models there are, as the protocol's repository has them.
#ifndef RECURVE_SERVER_KSERVE_REPOSITORY_H_
#define RECURVE_SERVER_KSERVE_REPOSITORY_H_

#include "engine/serve/registry.h"
#include "proto/inference/repository.pb.h"

namespace recurve::server::kserve {

// Every version of every model.
inference::RepositoryIndexResponse IndexOf(const Registry& registry);

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_REPOSITORY_H_
