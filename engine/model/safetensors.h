// The safetensors file format: an 8-byte little-endian header size, a JSON
// header, the tensors' bytes (little-endian, row-major).
//
// Reading is strict and safe on hostile bytes: what the official description
// asks for is checked (known types, offsets in bounds, no overlap, no holes, no
// key twice), nothing is allocated in proportion to a number that the file
// states, and no exception escapes. InvalidArgument names the tensor, the value
// and the limit; DataLoss means that the bytes end early.
#ifndef RECURVE_ENGINE_MODEL_SAFETENSORS_H_
#define RECURVE_ENGINE_MODEL_SAFETENSORS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/model/file.h"

namespace recurve {

// The reference implementation's limit on the JSON header.
inline constexpr int64_t kMaxSafetensorsHeaderBytes = 100'000'000;

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

// One tensor; its bytes belong to someone else and may stand at any address.
struct TensorView {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  absl::Span<const uint8_t> bytes;

  int64_t count() const;  // product of the shape; 1 for scalars
};

using TensorMap = std::map<std::string, TensorView, std::less<>>;
using MetadataMap = std::map<std::string, std::string, std::less<>>;

// "[2, 3]".
std::string ShapeString(absl::Span<const int64_t> shape);

class Safetensors {
 public:
  // The views point into `bytes`.
  static absl::StatusOr<Safetensors> Parse(absl::Span<const uint8_t> bytes);
  // Maps the file for as long as this object lives.
  static absl::StatusOr<Safetensors> Open(const std::string& path);

  const TensorMap& tensors() const { return tensors_; }
  const MetadataMap& metadata() const { return metadata_; }
  // Null if there is none of that name.
  const TensorView* Find(absl::string_view name) const;

 private:
  MappedFile file_;  // empty after Parse
  TensorMap tensors_;
  MetadataMap metadata_;
};

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

// The bytes of a file, a pure function of the arguments: tensors ordered by
// alignment, largest first, then by name (so each is aligned to its type), the
// header filled with spaces to a multiple of 8. InvalidArgument for a tensor
// whose bytes do not fit its shape or for text that is not UTF-8.
absl::StatusOr<std::string> SerializeSafetensors(const TensorMap& tensors,
                                                 const MetadataMap& metadata);
// The same bytes, by WriteFileAtomically and without a copy of the tensors.
absl::Status WriteSafetensors(const std::string& path, const TensorMap& tensors,
                              const MetadataMap& metadata);

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_SAFETENSORS_H_
