// Rows of one matrix into rows of another.
#ifndef RECURVE_KERNELS_CUDA_COPY_ROWS_H_
#define RECURVE_KERNELS_CUDA_COPY_ROWS_H_

#include "kernels/cell_args.h"
#include "kernels/cuda/portable.h"

namespace recurve::cuda {

// All bits are kept: loads and stores do not look at what they move.
cudaError_t CopyRows(const CopyRowsArgs& args, cudaStream_t stream);

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_COPY_ROWS_H_
