// What every backend refuses before it starts an operation of a Backend:
// InvalidArgument for shapes that contradict each other and for buffers that
// are missing. Layers have their own checks.
#ifndef RECURVE_KERNELS_ARGS_CHECK_H_
#define RECURVE_KERNELS_ARGS_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/cell_args.h"
#include "kernels/mask_args.h"
#include "kernels/optimizer_args.h"
#include "kernels/tensor.h"

namespace recurve {

absl::Status CheckEmbeddingForward(const EmbeddingForwardArgs<float>& args);
absl::Status CheckEmbeddingBackward(const EmbeddingBackwardArgs<float>& args);

absl::Status CheckPoolForward(const PoolArgs<float>& args);
absl::Status CheckPoolBackward(const PoolArgs<float>& args);

absl::Status CheckCopyRows(const CopyRowsArgs& args);

// No rows: nothing is missing.
absl::Status CheckCrossEntropy(const CrossEntropyArgs<float>& args);
absl::Status CheckSquaredError(const SquaredErrorArgs<float>& args);

// The mask must have a row for each sequence (variational) or row,
// keep_probability be in [0, 1], sequence indices and channels fit their 32-bit
// words of the counter.
absl::Status CheckMask(const MaskArgs& args);

// The buffers that the kind needs must be there, and step be 1 or more.
absl::Status CheckUpdate(const OptimizerArgs& args);

absl::Status CheckMultiply(const Matrix<const float>& x,
                           const Matrix<const float>& mask);

// `count` of `operation` must not be negative.
absl::Status CheckCount(absl::string_view operation, int64_t count);

}  // namespace recurve

#endif  // RECURVE_KERNELS_ARGS_CHECK_H_
