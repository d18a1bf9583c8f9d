// Tensors as bytes, the way files hold them, and their numbers.
#ifndef RECURVE_ENGINE_MODEL_TENSOR_DATA_H_
#define RECURVE_ENGINE_MODEL_TENSOR_DATA_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace recurve {

// The element types of safetensors.
enum class DType {
  kBool,
  kU8,
  kI8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kF16,
  kBF16,
  kF32,
  kF64,
  // Carried, never converted.
  kC64,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF6E2M3,
  kF6E3M2,
  kF4,
};

// As written in headers: `F32`.
absl::string_view DTypeName(DType dtype);
// F4 and F6 do not fill bytes.
int64_t DTypeBits(DType dtype);
// False if no type has that name.
bool FindDType(absl::string_view name, DType* dtype);

// One tensor; its bytes belong to someone else and may stand at any address.
struct TensorView {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  absl::Span<const uint8_t> bytes;

  int64_t count() const;  // product of the shape; 1 for scalars
};

using TensorMap = std::map<std::string, TensorView, std::less<>>;

// Bytes that a tensor of this type and shape takes. InvalidArgument where they
// are not whole, or where the sizes other than 0 multiply to more than 2^56:
// whatever the type, no product of sizes overflows. `name` is for the message.
absl::StatusOr<int64_t> ByteSize(absl::string_view name, DType dtype,
                                 absl::Span<const int64_t> shape);

// A name out of a file as messages show it: printable, short, in quotes.
std::string QuotedName(absl::string_view name);
// "[2, 3]".
std::string ShapeString(absl::Span<const int64_t> shape);

// The numbers of a tensor, row-major. F16, BF16 and F32 are exact as float; F64
// rounds to nearest and is InvalidArgument where a finite number would become
// infinite. Every other type is InvalidArgument; `name` is for the message.
absl::StatusOr<std::vector<float>> ToFloats(absl::string_view name,
                                            const TensorView& tensor);
// F16, BF16, F32, F64: exact.
absl::StatusOr<std::vector<double>> ToDoubles(absl::string_view name,
                                              const TensorView& tensor);
// BOOL and integers that fit.
absl::StatusOr<std::vector<int64_t>> ToIntegers(absl::string_view name,
                                                const TensorView& tensor);

// A float32 tensor that owns its numbers.
struct FloatTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};
using FloatTensorMap = std::map<std::string, FloatTensor, std::less<>>;

// Views of tensors that must outlive them.
TensorMap Views(const FloatTensorMap& tensors);

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_TENSOR_DATA_H_
