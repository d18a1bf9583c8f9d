#include "server/kserve/datatype.h"

#include <cassert>

namespace recurve::server::kserve {
namespace {

struct Datatype {
  DType dtype;
  const char* name;
  inference::DataType config;
};
constexpr Datatype kDatatypes[] = {
    {DType::kI32, "INT32", inference::TYPE_INT32},
    {DType::kI64, "INT64", inference::TYPE_INT64},
    {DType::kF32, "FP32", inference::TYPE_FP32},
    {DType::kF16, "FP16", inference::TYPE_FP16},
    {DType::kBF16, "BF16", inference::TYPE_BF16},
};

const Datatype& Find(DType dtype) {
  for (const Datatype& datatype : kDatatypes) {
    if (datatype.dtype == dtype) return datatype;
  }
  assert(false);
  return kDatatypes[0];
}

}  // namespace

absl::string_view DatatypeName(DType dtype) { return Find(dtype).name; }

inference::DataType ConfigType(DType dtype) { return Find(dtype).config; }

std::optional<DType> DTypeOf(absl::string_view datatype) {
  for (const Datatype& known : kDatatypes) {
    if (datatype == known.name) return known.dtype;
  }
  return std::nullopt;
}

}  // namespace recurve::server::kserve
