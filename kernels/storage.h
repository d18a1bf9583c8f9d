// How activations and the inputs of matrix products may be stored besides
// float: 16 bits, without arithmetic of their own. Kernels convert them to
// float when they read them and round to nearest even when they write them.
#ifndef RECURVE_KERNELS_STORAGE_H_
#define RECURVE_KERNELS_STORAGE_H_

#include <cstdint>

namespace recurve {

struct BFloat16 {  // the upper half of a float
  uint16_t bits;
};

struct Float16 {  // IEEE 754 binary16
  uint16_t bits;
};

}  // namespace recurve

#endif  // RECURVE_KERNELS_STORAGE_H_
