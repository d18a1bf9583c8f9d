// How the factors of a layer's matrix products are stored and multiplied.
// Sums are 32 bits wide in all of them, and states and recurrences stay
// float32.
#ifndef RECURVE_KERNELS_PRECISION_H_
#define RECURVE_KERNELS_PRECISION_H_

namespace recurve {

enum class Precision {
  kFloat32,
  kBfloat16,  // both factors rounded to 8 significant bits
  kInt8,      // weights scaled by column, activations by row, to [-127, 127]
};

}  // namespace recurve

#endif  // RECURVE_KERNELS_PRECISION_H_
