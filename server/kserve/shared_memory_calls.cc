#include "server/kserve/shared_memory_calls.h"

#include "absl/strings/match.h"
#include "kernels/status.h"

namespace recurve::server::kserve {
namespace {

void Describe(const SharedMemoryRegion& region,
              inference::SystemSharedMemoryStatusResponse* response) {
  auto& status = (*response->mutable_regions())[region.name()];
  status.set_name(region.name());
  status.set_key(region.key());
  status.set_offset(region.offset());
  status.set_byte_size(region.byte_size());
}

}  // namespace

bool SharesMemory(absl::string_view peer) {
  for (const char* const local :
       {"ipv4:127.", "ipv6:[::1]:", "ipv6:%5B::1%5D:", "ipv6:[::ffff:127.",
        "ipv6:%5B::ffff:127.", "unix:"}) {
    if (absl::StartsWith(peer, local)) return true;
  }
  return false;
}

absl::Status DescribeRegions(
    const SharedMemoryRegions& regions,
    const inference::SystemSharedMemoryStatusRequest& request,
    inference::SystemSharedMemoryStatusResponse* response) {
  if (request.name().empty()) {
    for (const RegionHandle& region : regions.List()) {
      Describe(*region, response);
    }
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const RegionHandle region, regions.Find(request.name()));
  Describe(*region, response);
  return absl::OkStatus();
}

absl::Status RegisterRegion(
    const inference::SystemSharedMemoryRegisterRequest& request,
    SharedMemoryRegions& regions) {
  return regions.Register(request.name(), request.key(), request.offset(),
                          request.byte_size());
}

void UnregisterRegions(
    const inference::SystemSharedMemoryUnregisterRequest& request,
    SharedMemoryRegions& regions) {
  if (request.name().empty()) return regions.UnregisterAll();
  regions.Unregister(request.name());
}

}  // namespace recurve::server::kserve
