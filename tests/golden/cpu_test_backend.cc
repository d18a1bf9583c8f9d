#include "kernels/cpu/backend.h"
#include "tests/golden/test_backend.h"

namespace recurve::golden {

std::unique_ptr<Backend> CreateTestBackend() { return CreateCpuBackend(1); }

}  // namespace recurve::golden
