// Words of two bf16 (narrow.h), from columns to rows and back.
#ifndef RECURVE_KERNELS_CPU_WORDS_H_
#define RECURVE_KERNELS_CPU_WORDS_H_

#include <cstdint>

#include "kernels/tensor.h"

namespace recurve::cpu {

// Word (i, j) of `from` to word (j, i), at to + j * to_stride + i.
void TransposeWords(Matrix<const uint32_t> from, uint32_t* to,
                    int64_t to_stride);

// The same, each word as two floats: at to + j * to_stride + 2 * i.
void TransposeWordsWide(Matrix<const uint32_t> from, float* to,
                        int64_t to_stride);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_WORDS_H_
