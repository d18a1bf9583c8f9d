// Datasets out of .npy arrays.
#ifndef RECURVE_ENGINE_DATA_ARRAYS_H_
#define RECURVE_ENGINE_DATA_ARRAYS_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/sequence_dataset.h"

namespace recurve {

// `inputs`: floats [B, T, I] or integer tokens [B, T]. `targets` is empty for
// next-token prediction (tokens only), else integer classes [B] or [B, T], or
// floats [B] or [B, O] a sequence, [B, T, O] a step. InvalidArgument says which
// array and, for NaN, infinity and tokens or classes out of range, where.
absl::StatusOr<SequenceDataset> ParseArrays(absl::string_view inputs,
                                            absl::string_view targets);

}  // namespace recurve

#endif  // RECURVE_ENGINE_DATA_ARRAYS_H_
