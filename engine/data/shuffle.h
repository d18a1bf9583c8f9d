// The order of a file's sequences in an epoch.
#ifndef RECURVE_ENGINE_DATA_SHUFFLE_H_
#define RECURVE_ENGINE_DATA_SHUFFLE_H_

#include <cstdint>
#include <vector>

namespace recurve {

// 0 .. count - 1 in the order of this epoch: every permutation equally likely
// (Fisher-Yates; Philox under seed, kShuffle and epoch), the same on every
// machine.
std::vector<int64_t> Permutation(int64_t count, uint64_t seed, int64_t epoch);

}  // namespace recurve

#endif  // RECURVE_ENGINE_DATA_SHUFFLE_H_
