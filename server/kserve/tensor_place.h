// Where a tensor's parameters say that its bytes are, if they are in shared
// memory.
#ifndef RECURVE_SERVER_KSERVE_TENSOR_PLACE_H_
#define RECURVE_SERVER_KSERVE_TENSOR_PLACE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/kserve/parameters.h"
#include "server/kserve/shared_memory.h"

namespace recurve::server::kserve {

// Lies inside its region.
struct TensorPlace {
  RegionHandle region;
  uint64_t offset = 0;
  uint64_t byte_size = 0;

  absl::StatusOr<std::string> Read() const {
    return region->Read(offset, byte_size);
  }
  absl::Status Write(absl::string_view bytes) const {
    return region->Write(offset, bytes);
  }
};

// Absent without `shared_memory_region`. NotFound for a region that is not
// registered, InvalidArgument for a place outside of it.
absl::StatusOr<std::optional<TensorPlace>> PlaceOf(
    const ParameterMap& parameters, const SharedMemoryRegions& regions);

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_TENSOR_PLACE_H_
