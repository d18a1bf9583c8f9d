#include <cstdio>
#include <cstdlib>
#include <utility>

#include "kernels/cuda/backend.h"
#include "tests/golden/test_backend.h"

namespace recurve::golden {

std::unique_ptr<Backend> CreateTestBackend() {
  auto backend = CreateCudaBackend(0);
  if (backend.ok()) return *std::move(backend);
  std::fprintf(stderr, "%s\n", backend.status().ToString().c_str());
  std::abort();
}

}  // namespace recurve::golden
