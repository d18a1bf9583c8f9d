// Bytes as people read them.
#ifndef RECURVE_ENGINE_SCHEDULE_FORMAT_BYTES_H_
#define RECURVE_ENGINE_SCHEDULE_FORMAT_BYTES_H_

#include <cstdint>
#include <string>

namespace recurve {

// "1.9 GiB", "320.0 KiB", "17 bytes".
std::string FormatBytes(int64_t bytes);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SCHEDULE_FORMAT_BYTES_H_
