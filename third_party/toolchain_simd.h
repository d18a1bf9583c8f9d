#ifndef RECURVE_THIRD_PARTY_TOOLCHAIN_SIMD_H_
#define RECURVE_THIRD_PARTY_TOOLCHAIN_SIMD_H_

#include <cstdint>

namespace recurve {

// values[i] = exp(values[i]), on the best instruction set of this CPU.
void ExpInPlace(float* values, int64_t count);

}  // namespace recurve

#endif  // RECURVE_THIRD_PARTY_TOOLCHAIN_SIMD_H_
