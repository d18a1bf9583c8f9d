// The framing of TensorBoard's event files (TFRecord).
#ifndef RECURVE_ENGINE_JOBS_RECORD_FORMAT_H_
#define RECURVE_ENGINE_JOBS_RECORD_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace recurve {

// The checksum of RFC 3720 (Castagnoli's polynomial).
uint32_t Crc32c(absl::string_view bytes);

// A record: its length, 8 bytes; a checksum of those; its bytes; a checksum of
// these. Little-endian; the checksums are masked, 4 bytes each.
std::string FramedRecord(absl::string_view bytes);

}  // namespace recurve

#endif  // RECURVE_ENGINE_JOBS_RECORD_FORMAT_H_
