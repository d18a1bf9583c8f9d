// What a test binary says about its kernels when its tests have run.
#ifndef RECURVE_KERNELS_CUDA_EMULATION_COVERAGE_CHECK_H_
#define RECURVE_KERNELS_CUDA_EMULATION_COVERAGE_CHECK_H_

#include <string>
#include <string_view>
#include <vector>

namespace recurve::cuda::emulation {

// How many functions a .cu file marks __global__ (comments do not count).
int CountGlobalFunctions(std::string_view source);

// Lines that say what is missing, none if nothing is: every registered
// instantiation must have been compared, and as many kernels as the sources
// (paths of .cu files; none: not asked) have __global__ functions.
std::vector<std::string> MissingCoverage(
    const std::vector<std::string>& source_paths);

}  // namespace recurve::cuda::emulation

#endif  // RECURVE_KERNELS_CUDA_EMULATION_COVERAGE_CHECK_H_
