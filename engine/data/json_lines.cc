#include "engine/data/json_lines.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/data/json_line.h"
#include "kernels/status.h"

namespace recurve {
namespace {

constexpr double kMaxInt32 = std::numeric_limits<int32_t>::max();
constexpr double kMinInt32 = std::numeric_limits<int32_t>::min();

absl::Status Bad(JsonField field, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("field `", JsonFieldName(field), "` ", what));
}

absl::Status BadAt(JsonField field, size_t index, double value,
                   absl::string_view what) {
  return Bad(field, absl::StrFormat("[%d] = %.12g %s", index, value, what));
}

// Appends integers in [minimum, max(int32)].
absl::Status AppendIntegers(JsonField field, const JsonNumbers& numbers,
                            double minimum, std::vector<int32_t>* out) {
  if (!numbers.integral) return Bad(field, "must hold integers");
  for (size_t i = 0; i < numbers.values.size(); ++i) {
    const double value = numbers.values[i];
    if (value < minimum || value > kMaxInt32) {
      return BadAt(field, i, value, "is out of range");
    }
    out->push_back(static_cast<int32_t>(value));
  }
  return absl::OkStatus();
}

absl::Status AppendFloats(JsonField field, const JsonNumbers& numbers,
                          std::vector<float>* out) {
  for (size_t i = 0; i < numbers.values.size(); ++i) {
    const auto value = static_cast<float>(numbers.values[i]);
    if (!std::isfinite(value)) {
      return BadAt(field, i, numbers.values[i], "is out of float32's range");
    }
    out->push_back(value);
  }
  return absl::OkStatus();
}

// The common length of the rows.
absl::StatusOr<int64_t> RowSize(JsonField field, const JsonNumbers& numbers) {
  size_t begin = 0;
  for (size_t row = 0; row < numbers.row_ends.size(); ++row) {
    const size_t size = numbers.row_ends[row] - begin;
    if (size != numbers.row_ends[0]) {
      return Bad(field, absl::StrCat("has ", size, " numbers in row ", row,
                                     ", ", numbers.row_ends[0], " in row 0"));
    }
    begin = numbers.row_ends[row];
  }
  if (numbers.row_ends.empty() || numbers.row_ends[0] == 0) {
    return Bad(field, "is empty");
  }
  return static_cast<int64_t>(numbers.row_ends[0]);
}

// What all lines of a file have in common.
struct Shape {
  JsonField input = kTokens;
  JsonField target = kNumJsonFields;  // that: next token
  bool per_step = false;
  int64_t feature_size = 0;
  int64_t target_size = 0;

  bool operator==(const Shape&) const = default;
  std::string ToString() const;
};

std::string Shape::ToString() const {
  std::string text = absl::StrCat("`", JsonFieldName(input), "`");
  if (feature_size > 0) absl::StrAppend(&text, " of size ", feature_size);
  if (target == kNumJsonFields) return text + " alone";
  absl::StrAppend(&text, " with `", JsonFieldName(target), "`");
  if (target_size > 0) absl::StrAppend(&text, " of size ", target_size);
  if (target == kTarget) absl::StrAppend(&text, per_step ? " a step" : "");
  return text;
}

// The one of `fields` that the line has; kNumJsonFields if none.
absl::StatusOr<JsonField> OnlyOne(const JsonLine& line,
                                  std::initializer_list<JsonField> fields) {
  JsonField found = kNumJsonFields;
  for (JsonField field : fields) {
    if (!line[field].present) continue;
    if (found != kNumJsonFields) {
      return Bad(field, absl::StrCat("and `", JsonFieldName(found),
                                     "` exclude each other"));
    }
    found = field;
  }
  return found;
}

absl::Status CheckDepth(const JsonLine& line, JsonField field, int minimum,
                        int maximum) {
  static constexpr absl::string_view kDepths[] = {
      "a number", "an array of numbers", "an array of arrays"};
  if (!line[field].present ||
      (line[field].depth >= minimum && line[field].depth <= maximum)) {
    return absl::OkStatus();
  }
  return Bad(field, absl::StrCat("must be ", kDepths[minimum],
                                 minimum < maximum ? " or more" : ""));
}

absl::Status CheckDepths(const JsonLine& line) {
  RETURN_IF_ERROR(CheckDepth(line, kTokens, 1, 1));
  // [] is no row, but says nothing of depth.
  if (!line[kFeatures].values.empty()) {
    RETURN_IF_ERROR(CheckDepth(line, kFeatures, 2, 2));
  }
  RETURN_IF_ERROR(CheckDepth(line, kLabel, 0, 0));
  RETURN_IF_ERROR(CheckDepth(line, kLabels, 1, 1));
  RETURN_IF_ERROR(CheckDepth(line, kWeight, 0, 0));
  return CheckDepth(line, kWeights, 1, 1);
}

absl::StatusOr<Shape> ShapeOf(const JsonLine& line) {
  RETURN_IF_ERROR(CheckDepths(line));
  Shape shape;
  ASSIGN_OR_RETURN(shape.input, OnlyOne(line, {kTokens, kFeatures}));
  if (shape.input == kNumJsonFields) {
    return absl::InvalidArgumentError("neither `tokens` nor `features`");
  }
  if (shape.input == kFeatures) {
    ASSIGN_OR_RETURN(shape.feature_size, RowSize(kFeatures, line[kFeatures]));
  }
  ASSIGN_OR_RETURN(shape.target, OnlyOne(line, {kLabel, kLabels, kTarget}));
  if (shape.target == kNumJsonFields && shape.input == kFeatures) {
    return Bad(kFeatures, "needs one of `label`, `labels` and `target`");
  }
  shape.per_step = shape.target == kNumJsonFields || shape.target == kLabels ||
                   (shape.target == kTarget && line[kTarget].depth == 2);
  if (shape.target == kTarget) {
    ASSIGN_OR_RETURN(shape.target_size,
                     shape.per_step
                         ? RowSize(kTarget, line[kTarget])
                         : static_cast<int64_t>(line[kTarget].values.size()));
    if (shape.target_size == 0) return Bad(kTarget, "is empty");
  }
  return shape;
}

// Gathers lines of one shape.
class Builder {
 public:
  absl::Status Add(const JsonLine& line);
  absl::StatusOr<SequenceDataset> Finish() &&;

 private:
  absl::Status TakeShape(const JsonLine& line);
  // Rows of the line's input: tokens or rows of features.
  absl::StatusOr<int64_t> InputRows(const JsonLine& line) const;
  absl::Status AddInput(const JsonLine& line, int64_t rows);
  absl::Status AddTarget(const JsonLine& line, int64_t rows);
  absl::Status AddWeights(const JsonLine& line, int64_t rows);

  bool next_token() const { return shape_.target == kNumJsonFields; }

  Shape shape_;
  bool weighted_ = false;
  SequenceDataset dataset_;
};

absl::Status Builder::TakeShape(const JsonLine& line) {
  ASSIGN_OR_RETURN(const Shape shape, ShapeOf(line));
  if (dataset_.sequences.num_sequences() == 0) shape_ = shape;
  if (shape == shape_) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "has ", shape.ToString(), "; the lines before have ", shape_.ToString()));
}

absl::StatusOr<int64_t> Builder::InputRows(const JsonLine& line) const {
  const auto rows = static_cast<int64_t>(shape_.input == kTokens
                                             ? line[kTokens].values.size()
                                             : line[kFeatures].row_ends.size());
  if (rows == 0) return Bad(shape_.input, "is empty");
  if (next_token() && rows == 1) {
    return Bad(kTokens, "has one token: there is no next one to predict");
  }
  return rows;
}

absl::Status Builder::Add(const JsonLine& line) {
  RETURN_IF_ERROR(TakeShape(line));
  ASSIGN_OR_RETURN(const int64_t input_rows, InputRows(line));
  const int64_t rows = next_token() ? input_rows - 1 : input_rows;
  RETURN_IF_ERROR(AddInput(line, rows));
  RETURN_IF_ERROR(AddTarget(line, rows));
  RETURN_IF_ERROR(AddWeights(line, rows));
  dataset_.sequences.cu_seqlens.push_back(dataset_.sequences.num_rows() + rows);
  return absl::OkStatus();
}

absl::Status Builder::AddInput(const JsonLine& line, int64_t rows) {
  SequenceBatch& sequences = dataset_.sequences;
  if (shape_.input == kFeatures) {
    return AppendFloats(kFeatures, line[kFeatures], &sequences.features);
  }
  std::vector<int32_t> tokens;
  RETURN_IF_ERROR(AppendIntegers(kTokens, line[kTokens], 0, &tokens));
  sequences.tokens.insert(sequences.tokens.end(), tokens.begin(),
                          tokens.begin() + rows);
  if (next_token()) {
    dataset_.targets.classes.insert(dataset_.targets.classes.end(),
                                    tokens.begin() + 1, tokens.end());
  }
  return absl::OkStatus();
}

absl::Status Builder::AddTarget(const JsonLine& line, int64_t rows) {
  if (next_token()) return absl::OkStatus();
  const JsonNumbers& target = line[shape_.target];
  const size_t target_rows =
      target.depth == 2 ? target.row_ends.size() : target.values.size();
  if (shape_.per_step && target_rows != static_cast<size_t>(rows)) {
    return Bad(shape_.target,
               absl::StrCat("has ", target_rows, " rows; the sequence has ",
                            rows, " steps"));
  }
  if (shape_.target == kTarget) {
    return AppendFloats(kTarget, target, &dataset_.targets.values);
  }
  return AppendIntegers(shape_.target, target, kMinInt32,
                        &dataset_.targets.classes);
}

absl::Status Builder::AddWeights(const JsonLine& line, int64_t rows) {
  ASSIGN_OR_RETURN(const JsonField field, OnlyOne(line, {kWeight, kWeights}));
  const int64_t target_rows = shape_.per_step ? rows : 1;
  std::vector<float> weights;
  if (field == kNumJsonFields) {
    weights.assign(target_rows, 1.0f);
  } else {
    RETURN_IF_ERROR(AppendFloats(field, line[field], &weights));
    weighted_ = true;
  }
  if (field == kWeight) weights.assign(target_rows, weights[0]);
  const bool one_a_token = field == kWeights && next_token();
  const int64_t expected = target_rows + (one_a_token ? 1 : 0);
  if (static_cast<int64_t>(weights.size()) != expected) {
    return Bad(field, absl::StrCat("has ", weights.size(), " numbers, not ",
                                   expected));
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] < 0) return BadAt(field, i, weights[i], "is negative");
  }
  dataset_.targets.weights.insert(dataset_.targets.weights.end(),
                                  weights.begin() + (one_a_token ? 1 : 0),
                                  weights.end());
  return absl::OkStatus();
}

absl::StatusOr<SequenceDataset> Builder::Finish() && {
  if (dataset_.sequences.num_sequences() == 0) {
    return absl::InvalidArgumentError("JSON Lines: the file has no examples");
  }
  if (!weighted_) dataset_.targets.weights.clear();
  dataset_.feature_size = shape_.feature_size;
  dataset_.per_step = shape_.per_step;
  dataset_.target_size = shape_.target_size;
  dataset_.next_token = next_token();
  return std::move(dataset_);
}

absl::Status AtLine(int64_t line, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("JSON Lines: line ", line,
                                                  ": ", status.message()));
}

absl::Status AddText(absl::string_view text, const JsonLinesLimits& limits,
                     JsonLine* line, Builder* builder) {
  if (static_cast<int64_t>(text.size()) > limits.max_line_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(text.size(), " bytes; at most ", limits.max_line_bytes));
  }
  if (absl::StripAsciiWhitespace(text).empty()) return absl::OkStatus();
  RETURN_IF_ERROR(ParseJsonLine(text, line));
  return builder->Add(*line);
}

}  // namespace

absl::StatusOr<SequenceDataset> ParseJsonLines(absl::string_view bytes,
                                               const JsonLinesLimits& limits) {
  Builder builder;
  JsonLine line;
  for (int64_t number = 1; !bytes.empty(); ++number) {
    const size_t end = std::min(bytes.find('\n'), bytes.size());
    const absl::Status status =
        AddText(bytes.substr(0, end), limits, &line, &builder);
    if (!status.ok()) return AtLine(number, status);
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
  return std::move(builder).Finish();
}

}  // namespace recurve
