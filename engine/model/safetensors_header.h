// The JSON header of a safetensors file.
#ifndef RECURVE_ENGINE_MODEL_SAFETENSORS_HEADER_H_
#define RECURVE_ENGINE_MODEL_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/model/safetensors.h"

namespace recurve {

// The header's key that is no tensor.
inline constexpr absl::string_view kSafetensorsMetadataKey = "__metadata__";

// What the header says of one tensor.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  int64_t begin = 0;  // bytes of the data
  int64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // names may stand twice
  MetadataMap metadata;
};

// Checks the header's form, not what the numbers mean.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(
    absl::string_view json);

// Where a file's tensors stand.
struct SafetensorsLayout {
  std::map<std::string, SafetensorsEntry, std::less<>> entries;  // by name
  MetadataMap metadata;
  int64_t data_begin = 0;  // in bytes of the file
};

// All that Safetensors::Parse checks, with its errors; the tensors are left on
// disk.
absl::StatusOr<SafetensorsLayout> ReadSafetensorsLayout(
    const ReadableFile& file);

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_SAFETENSORS_HEADER_H_
