// The protocol's extension `classification`: the largest numbers of a row with
// their indices, as text.
#ifndef RECURVE_SERVER_KSERVE_CLASSIFICATION_H_
#define RECURVE_SERVER_KSERVE_CLASSIFICATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace recurve::server::kserve {

// Of one text, about: a number, an index and a label that is not long.
inline constexpr int64_t kMaxClassificationBytes = 64;

// Appends the `count` largest, descending, each as a BYTES element (its length
// in 4 bytes, little-endian, then `VALUE:INDEX`, or `VALUE:INDEX:LABEL` where
// there are labels). REQUIRES: no NaN; count is at most the row's size; labels
// as many as the row's numbers, or none.
void AppendClassification(absl::Span<const float> row, int64_t count,
                          absl::Span<const std::string> labels,
                          std::string* bytes);

// `count` empty elements: of a row that is padding.
void AppendNoClassification(int64_t count, std::string* bytes);

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_CLASSIFICATION_H_
