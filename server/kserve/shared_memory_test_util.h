// Names for the objects of tests.
#ifndef RECURVE_SERVER_KSERVE_SHARED_MEMORY_TEST_UTIL_H_
#define RECURVE_SERVER_KSERVE_SHARED_MEMORY_TEST_UTIL_H_

#include <random>
#include <string>

#include "absl/strings/str_cat.h"

namespace recurve::server::kserve {

// As shm_open takes it. Not by process id: tests that run at the same time in
// sandboxes share the objects, and may have the same ids.
inline std::string UniqueKey() {
  std::random_device random;
  return absl::StrCat("/recurve_test_", random(), "_", random());
}

}  // namespace recurve::server::kserve

#endif  // RECURVE_SERVER_KSERVE_SHARED_MEMORY_TEST_UTIL_H_
