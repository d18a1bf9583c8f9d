#include "kernels/cuda/emulation/crash_report.h"

#include <signal.h>

#include <cstdio>
#include <cstring>

#include "kernels/cuda/emulation/block.h"
#include "kernels/cuda/emulation/memory.h"

namespace recurve::cuda::emulation {
namespace {

// Of the handlers that were there before.
struct sigaction on_segmentation_fault;
struct sigaction on_illegal_instruction;

void ReportSegmentationFault(int, siginfo_t* info, void*) {
  const char* grid = RunningGrid();
  if (std::optional<Neighbour> near = FindNeighbour(info->si_addr)) {
    const bool host = grid[0] == 0;
    std::fprintf(stderr,
                 "CUDA emulation: access to byte %td of %zu bytes of %s "
                 "memory%s\n",
                 near->offset, near->size,
                 near->device == kPinned ? "pinned" : "device",
                 host ? " by host code" : "");
  }
  std::fputs(grid, stderr);
  sigaction(SIGSEGV, &on_segmentation_fault, nullptr);  // it happens again
}

void ReportIllegalInstruction(int, siginfo_t*, void*) {
  std::fprintf(stderr,
               "CUDA emulation: misaligned access, or an index outside an "
               "array\n%s",
               RunningGrid());
  sigaction(SIGILL, &on_illegal_instruction, nullptr);
}

void Install(int signal, void (*report)(int, siginfo_t*, void*),
             struct sigaction* previous) {
  struct sigaction action;
  std::memset(&action, 0, sizeof(action));
  action.sa_sigaction = report;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(signal, &action, previous);
}

}  // namespace

void ExplainCrashes() {
  static const bool installed = [] {
    Install(SIGSEGV, ReportSegmentationFault, &on_segmentation_fault);
    Install(SIGILL, ReportIllegalInstruction, &on_illegal_instruction);
    return true;
  }();
  static_cast<void>(installed);
}

}  // namespace recurve::cuda::emulation
