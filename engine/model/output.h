// The rows of a model's output, some at a time.
#ifndef RECURVE_ENGINE_MODEL_OUTPUT_H_
#define RECURVE_ENGINE_MODEL_OUTPUT_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/model/passes.h"
#include "kernels/tensor.h"

namespace recurve {

// Rows [first, first + y.rows) of the linear output, from the features that a
// forward pass left.
absl::Status ComputeOutput(const PassContext& context, int64_t first,
                           Matrix<float> y);

// Calls `use` with tiles of the output in order, `first` being the first one's
// row: with the whole output if the pass has it, else with tiles that are
// computed here, one after the other in the same place. The only tile of an
// output without rows has none. Ends with the first error.
absl::Status ForEachOutputTile(
    const PassContext& context,
    absl::FunctionRef<absl::Status(int64_t first, Matrix<float> tile)> use);

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_OUTPUT_H_
