// The random masks of a recorded training pass.
#ifndef RECURVE_TESTS_GOLDEN_CASE_MASKS_H_
#define RECURVE_TESTS_GOLDEN_CASE_MASKS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/executor.h"
#include "engine/model/model.h"
#include "tests/golden/case_tensors.h"
#include "tests/golden/padded_grid.h"

namespace recurve::golden {

// Those that training this model would draw, as the file has them.
absl::StatusOr<std::vector<LayerMasks>> CaseMasks(const Model& model,
                                                  const PaddedGrid& grid,
                                                  size_t call,
                                                  CaseTensors& tensors);

}  // namespace recurve::golden

#endif  // RECURVE_TESTS_GOLDEN_CASE_MASKS_H_
