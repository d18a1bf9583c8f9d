#include "engine/schedule/format_bytes.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace recurve {

std::string FormatBytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " bytes");
  double value = bytes / 1024.0;
  size_t unit = 0;
  // 1023.95 would be printed as 1024.0.
  for (; value >= 1023.95 && unit + 1 < std::size(kUnits); ++unit) {
    value /= 1024;
  }
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

}  // namespace recurve
