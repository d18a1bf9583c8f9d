// Rows of a packed batch as a tile sees them: its own channels only.
#ifndef RECURVE_KERNELS_CPU_ROWS_H_
#define RECURVE_KERNELS_CPU_ROWS_H_

#include <cstdint>

namespace recurve::cpu {

// A pointer into row 0 and the distance between rows; null data if absent.
template <typename T>
struct Rows {
  T* data = nullptr;
  int64_t stride = 0;

  // Rows of floats may be read where rows of constants are asked for.
  operator Rows<const T>() const { return {data, stride}; }
  explicit operator bool() const { return data != nullptr; }
  T* operator[](int64_t row) const { return data + row * stride; }
};

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_ROWS_H_
