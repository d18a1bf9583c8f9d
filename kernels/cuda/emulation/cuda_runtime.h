// Stands for CUDA's cuda_runtime.h where kernels run on the host
// (kernels/cuda/portable.h): device code and the runtime API. Needs no file of
// CUDA. What it models and what it does not: docs/cuda_emulation.md.
#ifndef RECURVE_KERNELS_CUDA_EMULATION_CUDA_RUNTIME_H_
#define RECURVE_KERNELS_CUDA_EMULATION_CUDA_RUNTIME_H_

#include "kernels/cuda/emulation/device_functions.h"
#include "kernels/cuda/emulation/launch.h"
#include "kernels/cuda/emulation/runtime_api.h"
#include "kernels/cuda/emulation/vector_types.h"

#endif  // RECURVE_KERNELS_CUDA_EMULATION_CUDA_RUNTIME_H_
