// Rows of a packed batch as a tile sees them: its own channels only.
#ifndef RECURVE_KERNELS_CPU_ROWS_H_
#define RECURVE_KERNELS_CPU_ROWS_H_

#include <cstdint>

namespace recurve::cpu {

// A pointer into the tile's first row and the distance between rows; null data
// if absent.
template <typename T>
struct Rows {
  T* data = nullptr;
  int64_t stride = 0;

  // Rows of floats may be read where rows of constants are asked for.
  operator Rows<const T>() const { return {data, stride}; }
  explicit operator bool() const { return data != nullptr; }
  T* operator[](int64_t row) const { return data + row * stride; }
};

// The order in which a tile's rows are visited, and how far ahead of it memory
// is asked for. A block's row is short and the next one a whole row of the
// batch away, which the hardware's own prefetching does not follow: without
// help a walk over rows that are not cached takes twice as long.
class Walk {
 public:
  // `rows` rows of `count` channels, from the last if `downwards`.
  Walk(int64_t rows, bool downwards, int64_t count)
      : rows_(rows),
        downwards_(downwards),
        ahead_((kElementsAhead + count - 1) / count) {}

  int64_t steps() const { return rows_; }
  int64_t row(int64_t step) const {
    return downwards_ ? rows_ - 1 - step : step;
  }
  // The row to prefetch during `step`; the last one if there is none as far.
  int64_t row_ahead(int64_t step) const {
    const int64_t last = steps() - 1;
    return row(step + ahead_ < last ? step + ahead_ : last);
  }

 private:
  static constexpr int64_t kElementsAhead = 512;

  const int64_t rows_;
  const bool downwards_;
  const int64_t ahead_;
};

template <typename T>
inline void PrefetchToRead(const Rows<T>& rows, int64_t row, int64_t j) {
  if (rows) __builtin_prefetch(rows[row] + j, /*rw=*/0);
}

template <typename T>
inline void PrefetchToWrite(const Rows<T>& rows, int64_t row, int64_t j) {
  if (rows) __builtin_prefetch(rows[row] + j, /*rw=*/1);
}

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_ROWS_H_
