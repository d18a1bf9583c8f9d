// Token embedding: rows of a table, and the sum of their gradients.
#ifndef RECURVE_KERNELS_CPU_EMBEDDING_H_
#define RECURVE_KERNELS_CPU_EMBEDDING_H_

#include "absl/status/status.h"
#include "kernels/cell_args.h"

namespace recurve::cpu {

// y[n] = table[tokens[n]]. Errors: InvalidArgument if the shapes contradict
// each other.
absl::Status EmbeddingForward(const EmbeddingForwardArgs<float>& args);

// dtable[v] = sum of dy[n] over the rows n with tokens[n] == v, added in row
// order; on top of what dtable holds if args.accumulate. Threads share out
// columns, which leaves that order alone. Errors: as forward.
absl::Status EmbeddingBackward(const EmbeddingBackwardArgs<float>& args);

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_EMBEDDING_H_
