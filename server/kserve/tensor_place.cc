#include "server/kserve/tensor_place.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/status.h"

namespace recurve::server::kserve {

absl::StatusOr<std::optional<TensorPlace>> PlaceOf(
    const ParameterMap& parameters, const SharedMemoryRegions& regions) {
  ASSIGN_OR_RETURN(const std::optional<std::string> name,
                   StringParameter(parameters, "shared_memory_region"));
  if (!name.has_value()) return std::nullopt;
  ASSIGN_OR_RETURN(const std::optional<int64_t> offset,
                   IntegerParameter(parameters, "shared_memory_offset"));
  ASSIGN_OR_RETURN(const std::optional<int64_t> byte_size,
                   IntegerParameter(parameters, "shared_memory_byte_size"));
  if (!byte_size.has_value() || *byte_size < 0 || offset.value_or(0) < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "parameters: shared_memory_byte_size must be there with "
        "shared_memory_region, and it and shared_memory_offset be 0 or more"));
  }
  TensorPlace place;
  ASSIGN_OR_RETURN(place.region, regions.Find(*name));
  place.offset = static_cast<uint64_t>(offset.value_or(0));
  place.byte_size = static_cast<uint64_t>(*byte_size);
  RETURN_IF_ERROR(place.region->CheckRange(place.offset, place.byte_size));
  return place;
}

}  // namespace recurve::server::kserve
