// One piece of work of a stream or node of a graph: a kernel, a copy, a record
// of an event.
#ifndef RECURVE_KERNELS_CUDA_EMULATION_WORK_H_
#define RECURVE_KERNELS_CUDA_EMULATION_WORK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace recurve::cuda::emulation {

// Pinned memory that the work reads or writes: the host must leave it alone
// from the call on until the work has run.
struct HostUse {
  char* begin;
  size_t bytes;
  bool written;
};

struct Work {
  std::string name;
  int device = 0;        // that it runs on; nothing runs on a broken one
  std::set<int> memory;  // devices whose memory it may touch
  bool is_kernel = false;
  std::function<void()> run;
  std::vector<HostUse> host_uses;
};

// Called with the runtime's lock held.
void RunWork(const Work& work);

bool Overlap(const HostUse& a, const HostUse& b);
uint64_t Checksum(const HostUse& use);

}  // namespace recurve::cuda::emulation

#endif  // RECURVE_KERNELS_CUDA_EMULATION_WORK_H_
