#include "engine/serve/host_rows.h"

#include <cstdint>

#include "kernels/status.h"

namespace recurve {

absl::Status DownloadRows(Backend& backend, Matrix<const float> from,
                          float* to) {
  if (from.stride == from.cols) {
    return backend.Download(to, from.data,
                            from.rows * from.cols * sizeof(float));
  }
  for (int64_t r = 0; r < from.rows; ++r) {
    RETURN_IF_ERROR(backend.Download(to + r * from.cols, from.row(r),
                                     from.cols * sizeof(float)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Matrix<const float>> OnHost(Backend& backend,
                                           Matrix<const float> matrix,
                                           std::vector<float>& buffer) {
  buffer.resize(matrix.rows * matrix.cols);
  RETURN_IF_ERROR(DownloadRows(backend, matrix, buffer.data()));
  return Matrix<const float>(buffer.data(), matrix.rows, matrix.cols);
}

}  // namespace recurve
