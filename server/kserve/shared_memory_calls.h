// The calls of the protocol that register shared memory.
#ifndef RECURVE_SERVER_KSERVE_SHARED_MEMORY_CALLS_H_
#define RECURVE_SERVER_KSERVE_SHARED_MEMORY_CALLS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "proto/inference/shared_memory.pb.h"
#include "server/kserve/shared_memory.h"

namespace recurve::server::kserve {

// Whether a peer, in gRPC's words (`ipv4:127.0.0.1:4711`), is on this machine:
// others share no memory with it, and what its processes have there is not
// their business.
bool SharesMemory(absl::string_view peer);

// Of one region, or of all if the request names none. NotFound.
absl::Status DescribeRegions(
    const SharedMemoryRegions& regions,
    const inference::SystemSharedMemoryStatusRequest& request,
    inference::SystemSharedMemoryStatusResponse* response);

absl::Status RegisterRegion(
    const inference::SystemSharedMemoryRegisterRequest& request,
    SharedMemoryRegions& regions);

// One, or all if the request names none.
void UnregisterRegions(
    const inference::SystemSharedMemoryUnregisterRequest& request,
    SharedMemoryRegions& regions);

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_SHARED_MEMORY_CALLS_H_
