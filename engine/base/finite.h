// Whether numbers are finite, at the speed of reading them.
#ifndef RECURVE_ENGINE_BASE_FINITE_H_
#define RECURVE_ENGINE_BASE_FINITE_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/types/span.h"

namespace recurve {

// Index of the first that is NaN or infinite.
std::optional<int64_t> FirstNotFinite(absl::Span<const float> numbers);

inline bool AllFinite(absl::Span<const float> numbers) {
  return !FirstNotFinite(numbers).has_value();
}

}  // namespace recurve

#endif  // RECURVE_ENGINE_BASE_FINITE_H_
