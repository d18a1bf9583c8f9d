// NumPy's .npy files, versions 1 to 3, in C order. Safe on hostile bytes: the
// header is parsed, never evaluated, and object arrays (pickles) are refused.
#ifndef RECURVE_ENGINE_DATA_NPY_H_
#define RECURVE_ENGINE_DATA_NPY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/model/tensor_data.h"

namespace recurve {

inline constexpr uint32_t kMaxNpyHeaderBytes = 1 << 16;
inline constexpr size_t kMaxNpyDimensions = 32;  // as NumPy

// The array in `bytes`, which must outlive it. Types are little-endian
// booleans, integers and floats of 1 to 8 bytes ('|b1', '|u1', '<i4', '<f8',
// ...). InvalidArgument says what is wrong (type, Fortran order, a shape that
// overflows, bytes after the end), DataLoss that the bytes end early.
absl::StatusOr<TensorView> ParseNpy(absl::Span<const uint8_t> bytes);

// A '<f4' file, version 1.0. REQUIRES: the values fill the shape, which has at
// most kMaxNpyDimensions sizes.
std::string SerializeNpy(absl::Span<const int64_t> shape,
                         absl::Span<const float> values);

}  // namespace recurve

#endif  // RECURVE_ENGINE_DATA_NPY_H_
