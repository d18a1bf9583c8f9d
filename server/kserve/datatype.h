// The element types that tensors of this server have, by the protocol's names.
#ifndef RECURVE_SERVER_KSERVE_DATATYPE_H_
#define RECURVE_SERVER_KSERVE_DATATYPE_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "engine/model/tensor_data.h"
#include "proto/inference/model_config.pb.h"

namespace recurve::server::kserve {

// `INT32`.
absl::string_view DatatypeName(DType dtype);
inference::DataType ConfigType(DType dtype);
// Absent for types that no tensor here has.
std::optional<DType> DTypeOf(absl::string_view datatype);

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_DATATYPE_H_
