// The backend that golden_test runs on: whichever its target links.
#ifndef RECURVE_TESTS_GOLDEN_TEST_BACKEND_H_
#define RECURVE_TESTS_GOLDEN_TEST_BACKEND_H_

#include <memory>

#include "kernels/backend.h"

namespace recurve::golden {

std::unique_ptr<Backend> CreateTestBackend();

}  // namespace recurve::golden

#endif  // RECURVE_TESTS_GOLDEN_TEST_BACKEND_H_
