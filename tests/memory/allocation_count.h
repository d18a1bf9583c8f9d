// Counts what a program takes from the heap: a program that links this has its
// own malloc, so memory from operator new is counted too.
#ifndef RECURVE_TESTS_MEMORY_ALLOCATION_COUNT_H_
#define RECURVE_TESTS_MEMORY_ALLOCATION_COUNT_H_

#include <cstdint>

namespace recurve {

// Calls of malloc and its kin since the program began.
struct AllocationCount {
  int64_t here = 0;       // by the calling thread
  int64_t elsewhere = 0;  // by all others
};
AllocationCount CountAllocations();

// Whether they are counted: not where a sanitizer has its own malloc.
bool AllocationsAreCounted();

// From here on the first few allocations are reported, with the addresses that
// they came from (addr2line knows their lines), on standard error; those of the
// calling thread only if `here`.
void ReportAllocations(bool here);
void StopReports();

}  // namespace recurve

#endif  // RECURVE_TESTS_MEMORY_ALLOCATION_COUNT_H_
