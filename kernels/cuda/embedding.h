// Token embedding: rows of a table, and the sum of their gradients.
#ifndef RECURVE_KERNELS_CUDA_EMBEDDING_H_
#define RECURVE_KERNELS_CUDA_EMBEDDING_H_

#include "kernels/cell_args.h"
#include "kernels/cuda/portable.h"

namespace recurve::cuda {

// y[n] = table[tokens[n]].
template <typename S>
cudaError_t EmbeddingForward(const EmbeddingForwardArgs<S>& args,
                             cudaStream_t stream);

// dtable[v] = sum of dy[n] over the rows n with tokens[n] == v; on top of what
// dtable holds if args.accumulate. No two threads add to one element, and the
// order depends on tokens and shapes alone: the order of rows, as on the CPU,
// for tables of more than kSplitTableRows rows; below, eight sums over rows in
// turn.
template <typename S>
cudaError_t EmbeddingBackward(const EmbeddingBackwardArgs<S>& args,
                              cudaStream_t stream);

inline constexpr int64_t kSplitTableRows = 1024;

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_EMBEDDING_H_
