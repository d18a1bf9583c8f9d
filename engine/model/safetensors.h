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
#include "engine/base/file.h"
#include "engine/model/tensor_data.h"

namespace recurve {

// The reference implementation's limit on the JSON header.
inline constexpr int64_t kMaxSafetensorsHeaderBytes = 100'000'000;

using MetadataMap = std::map<std::string, std::string, std::less<>>;

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

// The bytes of a file, a pure function of the arguments: tensors ordered by
// alignment, largest first, then by name (so each is aligned to its type), the
// header filled with spaces to a multiple of 8. InvalidArgument for a tensor
// whose bytes do not fit its shape or for text that is not UTF-8.
absl::StatusOr<std::string> SerializeSafetensors(const TensorMap& tensors,
                                                 const MetadataMap& metadata);
// The same bytes, in two parts without a copy of the tensors: what comes before
// the data, and views of the data, in order.
absl::StatusOr<std::string> SafetensorsHead(const TensorMap& tensors,
                                            const MetadataMap& metadata);
std::vector<absl::string_view> SafetensorsData(const TensorMap& tensors);
// The same bytes, by WriteFileAtomically and without a copy of the tensors.
absl::Status WriteSafetensors(const std::string& path, const TensorMap& tensors,
                              const MetadataMap& metadata);

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_SAFETENSORS_H_
