// Which kernels a test binary has compared. Every instantiation of Launch
// registers itself before main; a launch counts once a comparison
// (device_array.h) follows it.
//
// Thread safety: all functions may be called from any thread.
#ifndef RECURVE_KERNELS_CUDA_EMULATION_COVERAGE_H_
#define RECURVE_KERNELS_CUDA_EMULATION_COVERAGE_H_

#include <set>
#include <string>
#include <typeinfo>
#include <vector>

namespace recurve::cuda::emulation {

// type: an instantiation of a class template whose only parameter is the
// kernel. Returns the kernel's number.
int RegisterKernel(const std::type_info& type);
// "recurve::cuda::SruForwardKernel<float, 4>"; unnamed namespaces left out.
const char* KernelName(int kernel);

void MarkLaunched(int kernel);
// The outputs of all launches so far have been compared with a reference.
void MarkCompared();

// Registered instantiations without a compared launch, in order of name.
std::vector<std::string> UncoveredKernels();
// Names without template arguments.
std::set<std::string> KernelTemplates();
std::set<std::string> CoveredKernelTemplates();

}  // namespace recurve::cuda::emulation

#endif  // RECURVE_KERNELS_CUDA_EMULATION_COVERAGE_H_
