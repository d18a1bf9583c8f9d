#include "engine/data/arrays.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/data/npy.h"
#include "engine/model/tensor_data.h"
#include "kernels/status.h"

namespace recurve {
namespace {

absl::Status Bad(absl::string_view name, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", what));
}

bool IsFloat(const TensorView& array) {
  return array.dtype == DType::kF16 || array.dtype == DType::kF32 ||
         array.dtype == DType::kF64;
}

absl::StatusOr<TensorView> Parse(absl::string_view name,
                                 absl::string_view bytes) {
  auto array = ParseNpy(absl::MakeConstSpan(
      reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
  if (array.ok()) return array;
  return absl::Status(array.status().code(),
                      absl::StrCat(name, ": ", array.status().message()));
}

// "[2, 0, 5]" of the element at `offset`.
std::string Place(const std::vector<int64_t>& shape, int64_t offset) {
  std::vector<int64_t> place(shape.size());
  for (size_t i = shape.size(); i-- > 0; offset /= shape[i]) {
    place[i] = offset % shape[i];
  }
  return ShapeString(place);
}

absl::StatusOr<std::vector<float>> Floats(absl::string_view name,
                                          const TensorView& array) {
  ASSIGN_OR_RETURN(std::vector<float> values, ToFloats(name, array));
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    return Bad(name, absl::StrCat(values[i], " at ", Place(array.shape, i)));
  }
  return values;
}

absl::StatusOr<std::vector<int32_t>> Integers(absl::string_view name,
                                              const TensorView& array,
                                              int64_t minimum) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> wide, ToIntegers(name, array));
  std::vector<int32_t> values(wide.size());
  for (size_t i = 0; i < wide.size(); ++i) {
    if (wide[i] < minimum || wide[i] > std::numeric_limits<int32_t>::max()) {
      return Bad(name, absl::StrCat(wide[i], " at ", Place(array.shape, i),
                                    " is out of range"));
    }
    values[i] = static_cast<int32_t>(wide[i]);
  }
  return values;
}

absl::Status CheckInputShape(const TensorView& array) {
  const size_t rank = IsFloat(array) ? 3 : 2;
  if (array.shape.size() == rank && array.count() > 0) return absl::OkStatus();
  return Bad("array", absl::StrCat("shape ", ShapeString(array.shape),
                                   "; floats must be [B, T, I], integer tokens "
                                   "[B, T], no size 0"));
}

// [0, T, 2 T, ..., B T].
std::vector<int64_t> EvenOffsets(int64_t sequences, int64_t steps) {
  std::vector<int64_t> offsets;
  for (int64_t b = 0; b <= sequences; ++b) offsets.push_back(b * steps);
  return offsets;
}

absl::StatusOr<SequenceDataset> NextToken(const std::vector<int32_t>& tokens,
                                          int64_t sequences, int64_t steps) {
  if (steps < 2) {
    return Bad("array", "one token a sequence: there is no next to predict");
  }
  SequenceDataset dataset;
  dataset.per_step = dataset.next_token = true;
  dataset.sequences.cu_seqlens = EvenOffsets(sequences, steps - 1);
  for (int64_t b = 0; b < sequences; ++b) {
    const auto begin = tokens.begin() + b * steps, end = begin + steps;
    auto& inputs = dataset.sequences.tokens;
    auto& targets = dataset.targets.classes;
    inputs.insert(inputs.end(), begin, end - 1);
    targets.insert(targets.end(), begin + 1, end);
  }
  return dataset;
}

absl::Status TargetShapeError(const TensorView& array, int64_t sequences,
                              int64_t steps) {
  return Bad("targets",
             absl::StrCat("shape ", ShapeString(array.shape), " for ",
                          sequences, " sequences of ", steps,
                          " steps; must be [B], [B, T] (integer classes), [B, "
                          "O] or [B, T, O] (floats)"));
}

absl::Status AddTargets(const TensorView& array, int64_t sequences,
                        int64_t steps, SequenceDataset* dataset) {
  const std::vector<int64_t>& shape = array.shape;
  const size_t rank = shape.size(), step_rank = IsFloat(array) ? 3 : 2;
  dataset->per_step = rank == step_rank;
  if (rank < 1 || rank > step_rank || shape[0] != sequences ||
      (dataset->per_step && shape[1] != steps) || array.count() == 0) {
    return TargetShapeError(array, sequences, steps);
  }
  if (!IsFloat(array)) {
    ASSIGN_OR_RETURN(
        dataset->targets.classes,
        Integers("targets", array, std::numeric_limits<int32_t>::min()));
    return absl::OkStatus();
  }
  dataset->target_size = rank == 1 ? 1 : shape.back();
  ASSIGN_OR_RETURN(dataset->targets.values, Floats("targets", array));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SequenceDataset> ParseArrays(absl::string_view inputs,
                                            absl::string_view targets) {
  ASSIGN_OR_RETURN(const TensorView array, Parse("array", inputs));
  RETURN_IF_ERROR(CheckInputShape(array));
  const int64_t sequences = array.shape[0], steps = array.shape[1];
  SequenceDataset dataset;
  dataset.sequences.cu_seqlens = EvenOffsets(sequences, steps);
  if (IsFloat(array)) {
    if (targets.empty()) return Bad("array", "features need targets");
    dataset.feature_size = array.shape[2];
    ASSIGN_OR_RETURN(dataset.sequences.features, Floats("array", array));
  } else {
    ASSIGN_OR_RETURN(dataset.sequences.tokens, Integers("array", array, 0));
    if (targets.empty()) {
      return NextToken(dataset.sequences.tokens, sequences, steps);
    }
  }
  ASSIGN_OR_RETURN(const TensorView target_array, Parse("targets", targets));
  RETURN_IF_ERROR(AddTargets(target_array, sequences, steps, &dataset));
  return dataset;
}

}  // namespace recurve
