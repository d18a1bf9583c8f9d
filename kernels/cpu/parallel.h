// Loops over independent pieces of work on the calling thread's OpenMP team. No
// piece's result may depend on which thread computes it, nor on how many there
// are: that is what keeps results equal for any number of threads.
#ifndef RECURVE_KERNELS_CPU_PARALLEL_H_
#define RECURVE_KERNELS_CPU_PARALLEL_H_

#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace recurve::cpu {

// Below this many elements waking a team costs more than it saves.
inline constexpr int64_t kMinParallelElements = 16 * 1024;

// Calls f(i) for each i in [0, count); all calls together touch about
// `elements` elements. Pieces may differ in cost: threads take them in turn.
template <typename F>
void ParallelFor(int64_t count, int64_t elements, const F& f) {
  const int threads = omp_get_max_threads();
  if (threads == 1 || count <= 1 || elements < kMinParallelElements) {
    for (int64_t i = 0; i < count; ++i) f(i);
    return;
  }
  const int64_t chunk = std::max<int64_t>(1, count / (8 * threads));
#pragma omp parallel for schedule(dynamic, chunk)
  for (int64_t i = 0; i < count; ++i) f(i);
}

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_PARALLEL_H_
