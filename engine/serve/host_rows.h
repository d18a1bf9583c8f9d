// Device matrices in host memory.
#ifndef RECURVE_ENGINE_SERVE_HOST_ROWS_H_
#define RECURVE_ENGINE_SERVE_HOST_ROWS_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/tensor.h"

namespace recurve {

// To [from.rows, from.cols], densely.
absl::Status DownloadRows(Backend& backend, Matrix<const float> from,
                          float* to);

// The same, to `buffer`.
absl::StatusOr<Matrix<const float>> OnHost(Backend& backend,
                                           Matrix<const float> matrix,
                                           std::vector<float>& buffer);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_HOST_ROWS_H_
