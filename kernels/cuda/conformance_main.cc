// Compares the CUDA backend with the CPU's, on a GPU or on the emulation,
// whichever it is linked with. Exits with 1 if they differ, with 2 if there is
// no device.
//
//   conformance [--device=0] [--seed=1] [--precision=fp32]
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "kernels/backend.h"
#include "kernels/cuda/backend.h"
#include "kernels/cuda/conformance.h"
#include "kernels/cuda/settings.h"

ABSL_FLAG(int, device, 0, "The GPU's ordinal.");
ABSL_FLAG(uint32_t, seed, 1, "Of shapes and numbers.");
ABSL_FLAG(std::string, precision, "fp32",
          "Of products: fp32, tf32, bf16 or fp16.");

namespace recurve::cuda {
namespace {

struct Precision {
  ProductPrecision setting;
  double of_a_factor;  // its largest relative error
};

const std::map<std::string, Precision>& Precisions() {
  static const auto* precisions = new std::map<std::string, Precision>{
      {"fp32", {ProductPrecision::kFp32, 0.0}},
      {"tf32", {ProductPrecision::kTf32, 1.0 / 2048}},
      {"bf16", {ProductPrecision::kBf16, 1.0 / 256}},
      {"fp16", {ProductPrecision::kFp16, 1.0 / 2048}},
  };
  return *precisions;
}

int Run() {
  const auto precision = Precisions().find(absl::GetFlag(FLAGS_precision));
  if (precision == Precisions().end()) {
    std::fprintf(stderr, "--precision is fp32, tf32, bf16 or fp16\n");
    return 2;
  }
  CudaBackendOptions options;
  options.precision = precision->second.setting;
  auto backend = CreateCudaBackend(absl::GetFlag(FLAGS_device), options);
  if (!backend.ok()) {
    std::fprintf(stderr, "%s\n", backend.status().ToString().c_str());
    return 2;
  }
  const Conformance conformance = CompareWithCpu(
      **backend, absl::GetFlag(FLAGS_seed), precision->second.of_a_factor);
  for (const std::string& failure : conformance.failures) {
    std::printf("%s\n", failure.c_str());
  }
  std::printf("%d operations compared, %d differences\n",
              static_cast<int>(conformance.operations),
              static_cast<int>(conformance.failures.size()));
  return conformance.failures.empty() ? 0 : 1;
}

}  // namespace
}  // namespace recurve::cuda

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return recurve::cuda::Run();
}
