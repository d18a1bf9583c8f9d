// One line of JSON Lines as it stands, before what it means is checked.
#ifndef RECURVE_ENGINE_DATA_JSON_LINE_H_
#define RECURVE_ENGINE_DATA_JSON_LINE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace recurve {

enum JsonField {
  kTokens,
  kFeatures,
  kLabel,
  kLabels,
  kTarget,
  kWeight,
  kWeights,
  kNumJsonFields,
};

absl::string_view JsonFieldName(JsonField field);

// A number (depth 0), an array of numbers (1) or an array of such arrays (2).
struct JsonNumbers {
  bool present = false;
  int depth = 0;
  bool integral = true;  // all of them were written as integers
  std::vector<double> values;
  std::vector<size_t> row_ends;  // depth 2: where in values each row ends
};

using JsonLine = std::array<JsonNumbers, kNumJsonFields>;

// Memory in proportion to `text`, whatever it holds. `line` keeps its buffers
// from call to call. The error says what is wrong and in which field: malformed
// JSON, an unknown or repeated field, other values than numbers, deeper or
// uneven nesting, numbers that no double holds.
absl::Status ParseJsonLine(absl::string_view text, JsonLine* line);

}  // namespace recurve

#endif  // RECURVE_ENGINE_DATA_JSON_LINE_H_
