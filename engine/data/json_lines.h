// JSON Lines: one example a line.
//
//   {"tokens": [3, 1, 4], "label": 2}
//   {"tokens": [3, 1, 4], "labels": [1, 4, 1], "weights": [1, 0.5, 0]}
//   {"features": [[0.1, 0.2], [0.3, 0.4]], "target": [1.5]}
//   {"tokens": [3, 1, 4]}
//
// Input: `tokens`, integers, or `features`, an array of rows of one size.
// Target: `label`, an integer for the sequence; `labels`, an integer a step;
// `target`, a number or flat array for the sequence, or an array of arrays, a
// row a step; none with tokens: each step's target is the next token.
// `weight` counts for the line (all its steps), `weights` for each target row:
// one a step, or, for next-token lines, one a token, the predicted token's
// being the one that counts. All lines of a file have one kind of input and
// target, and one size. Empty lines are skipped.
#ifndef RECURVE_ENGINE_DATA_JSON_LINES_H_
#define RECURVE_ENGINE_DATA_JSON_LINES_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/sequence_dataset.h"

namespace recurve {

struct JsonLinesLimits {
  int64_t max_line_bytes = int64_t{64} << 20;
};

// InvalidArgument names line (from 1) and field: malformed JSON, a field that
// is unknown, there twice, of the wrong type, not finite, negative (weights) or
// unlike the lines before; a file with no examples.
absl::StatusOr<SequenceDataset> ParseJsonLines(
    absl::string_view bytes, const JsonLinesLimits& limits = {});

}  // namespace recurve

#endif  // RECURVE_ENGINE_DATA_JSON_LINES_H_
