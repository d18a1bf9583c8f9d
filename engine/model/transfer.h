// Copies between host memory and a device, counted in elements.
#ifndef RECURVE_ENGINE_MODEL_TRANSFER_H_
#define RECURVE_ENGINE_MODEL_TRANSFER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/backend.h"
#include "kernels/tensor.h"

namespace recurve {

template <typename T>
absl::Status Upload(Backend& backend, T* device, absl::Span<const T> host) {
  if (host.empty()) return absl::OkStatus();
  return backend.Upload(device, host.data(),
                        static_cast<int64_t>(host.size() * sizeof(T)));
}

template <typename T>
absl::Status Download(Backend& backend, absl::Span<T> host, const T* device) {
  if (host.empty()) return absl::OkStatus();
  return backend.Download(host.data(), device,
                          static_cast<int64_t>(host.size() * sizeof(T)));
}

// `matrix` is dense.
template <typename T>
absl::Status Zero(Backend& backend, Matrix<T> matrix) {
  const int64_t count = matrix.rows * matrix.cols;
  if (count == 0) return absl::OkStatus();
  return backend.Zero(matrix.data, count * static_cast<int64_t>(sizeof(T)));
}

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_TRANSFER_H_
