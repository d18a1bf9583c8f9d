// The CPU as a device: a team of threads and ordinary memory.
#ifndef RECURVE_KERNELS_CPU_BACKEND_H_
#define RECURVE_KERNELS_CPU_BACKEND_H_

#include <cstdint>
#include <memory>

#include "kernels/backend.h"
#include "kernels/precision.h"

namespace recurve {

// A device that computes with num_threads OpenMP threads, the calling one among
// them. Allocate fails with ResourceExhausted when memory is out. All matrix
// products round their factors as `products` says and add in float32; whatever
// is stored stays float32.
//
// REQUIRES: num_threads >= 1; products is kFloat32 or kBfloat16.
std::unique_ptr<Backend> CreateCpuBackend(
    int num_threads, Precision products = Precision::kFloat32);

// Bytes that the threads of such a device keep for themselves, besides what
// Allocate gives out. A device has them from its creation on if the thread that
// creates it is the one that uses it.
int64_t CpuWorkspaceBytes(int num_threads);

// What PackedBytes of such a device says.
int64_t CpuPackedBytes(const ProjectionShape& projection, Precision precision);

}  // namespace recurve

#endif  // RECURVE_KERNELS_CPU_BACKEND_H_
