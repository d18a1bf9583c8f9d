// Cuts one allocation into aligned pieces, in order. Over a null base it only
// counts, and the pieces are addresses without memory: what is planned and what
// is used come from one and the same code.
#ifndef RECURVE_ENGINE_MODEL_ARENA_H_
#define RECURVE_ENGINE_MODEL_ARENA_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/tensor.h"

namespace recurve {

class ArenaCursor {
 public:
  // `base` is aligned to kAlignment.
  explicit ArenaCursor(void* base)
      : base_(base != nullptr ? static_cast<std::byte*>(base)
                              : reinterpret_cast<std::byte*>(kAlignment)) {}

  template <typename T>
  T* Take(int64_t count) {
    std::byte* const piece = base_ + bytes_;
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return reinterpret_cast<T*>(piece);
  }

  template <typename T>
  Matrix<T> Take(int64_t rows, int64_t cols) {
    return {Take<T>(rows * cols), rows, cols};
  }

  // Pieces that are never in use together may share their place: each user
  // takes from a copy of the cursor, and all copies are joined afterwards.
  void Join(const ArenaCursor& other) {
    bytes_ = std::max(bytes_, other.bytes_);
  }

  int64_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  int64_t bytes_ = 0;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_MODEL_ARENA_H_
