#include "kernels/cpu/words.h"

#include <cstdint>
#include <cstring>

#include "kernels/tensor.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/words.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "kernels/cpu/transpose-inl.h"

HWY_BEFORE_NAMESPACE();
namespace recurve::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr uint32_t kSecond = 0xffff0000;

// How words are written: as they are, or as floats.

struct AsWords {
  static constexpr int64_t kSize = 1;
  static void Store(uint32_t word, uint32_t* to) { *to = word; }
#if HWY_TARGET != HWY_SCALAR
  using D = hn::FixedTag<uint32_t, 4>;
  static HWY_INLINE void Store(hn::Vec<D> words, uint32_t* to) {
    hn::StoreU(words, D(), to);
  }
#endif
};

struct AsFloats {
  static constexpr int64_t kSize = 2;
  static void Store(uint32_t word, uint32_t* to) {
    to[0] = word << 16;
    to[1] = word & kSecond;
  }
#if HWY_TARGET != HWY_SCALAR
  using D = hn::FixedTag<uint32_t, 4>;
  static HWY_INLINE void Store(hn::Vec<D> words, uint32_t* to) {
    const D d;
    const auto first = hn::ShiftLeft<16>(words);
    const auto second = hn::And(words, hn::Set(d, kSecond));
    hn::StoreU(hn::InterleaveLower(d, first, second), d, to);
    hn::StoreU(hn::InterleaveUpper(d, first, second), d, to + 4);
  }
#endif
};

// Rows [i, i + 4) of `from`.
template <class As>
void TransposeFourRows(const Matrix<const uint32_t>& from, int64_t i,
                       uint32_t* to, int64_t to_stride) {
  int64_t j = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; j + 4 <= from.cols; j += 4) {
    TransposeFour(from.row(i) + j, from.stride, [&](int64_t r, auto words) {
      As::Store(words, to + (j + r) * to_stride + i * As::kSize);
    });
  }
#endif
  for (; j < from.cols; ++j) {
    for (int64_t r = i; r < i + 4; ++r) {
      As::Store(from.row(r)[j], to + j * to_stride + r * As::kSize);
    }
  }
}

template <class As>
void Transpose(const Matrix<const uint32_t>& from, uint32_t* to,
               int64_t to_stride) {
  int64_t i = 0;
  for (; i + 4 <= from.rows; i += 4) {
    TransposeFourRows<As>(from, i, to, to_stride);
  }
  for (; i < from.rows; ++i) {
    for (int64_t j = 0; j < from.cols; ++j) {
      As::Store(from.row(i)[j], to + j * to_stride + i * As::kSize);
    }
  }
}

void TransposeWordsKernel(const Matrix<const uint32_t>& from, uint32_t* to,
                          int64_t to_stride) {
  Transpose<AsWords>(from, to, to_stride);
}

void TransposeWordsWideKernel(const Matrix<const uint32_t>& from, float* to,
                              int64_t to_stride) {
  Transpose<AsFloats>(from, reinterpret_cast<uint32_t*>(to), to_stride);
}

}  // namespace HWY_NAMESPACE
}  // namespace recurve::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace recurve::cpu {

HWY_EXPORT(TransposeWordsKernel);
HWY_EXPORT(TransposeWordsWideKernel);

void TransposeWords(Matrix<const uint32_t> from, uint32_t* to,
                    int64_t to_stride) {
  HWY_DYNAMIC_DISPATCH(TransposeWordsKernel)(from, to, to_stride);
}

void TransposeWordsWide(Matrix<const uint32_t> from, float* to,
                        int64_t to_stride) {
  HWY_DYNAMIC_DISPATCH(TransposeWordsWideKernel)(from, to, to_stride);
}

}  // namespace recurve::cpu
#endif  // HWY_ONCE
