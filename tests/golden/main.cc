// golden --dir=DIR: runs every golden case under DIR and prints one line each,
// then "N passed, N failed, N skipped". Exits 0 if some passed and none failed.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/statusor.h"
#include "engine/schedule/device.h"
#include "engine/schedule/device_spec.h"
#include "kernels/backend.h"
#include "kernels/status.h"
#include "tests/golden/case_files.h"
#include "tests/golden/golden_case.h"

ABSL_FLAG(std::string, dir, "",
          "folder of .safetensors cases, searched deeply");
ABSL_FLAG(std::string, device, "cpu:1", "as in the server's --devices");

namespace recurve::golden {
namespace {

// Under `bazel run`, from where it was called.
std::filesystem::path Resolve(const std::string& path) {
  const char* directory = std::getenv("BUILD_WORKING_DIRECTORY");
  return directory == nullptr ? std::filesystem::path(path)
                              : std::filesystem::path(directory) / path;
}

absl::StatusOr<std::unique_ptr<Backend>> OpenDevice() {
  ASSIGN_OR_RETURN(const std::vector<DeviceSpec> specs,
                   ParseDevices(absl::GetFlag(FLAGS_device)));
  return CreateBackend(specs[0]);
}

int Main() {
  const std::filesystem::path directory = Resolve(absl::GetFlag(FLAGS_dir));
  const std::vector<std::string> files = CaseFiles(directory);
  if (absl::GetFlag(FLAGS_dir).empty() || files.empty()) {
    std::fprintf(stderr, "golden: no .safetensors files under --dir=%s\n",
                 absl::GetFlag(FLAGS_dir).c_str());
    return 2;
  }
  const absl::StatusOr<std::unique_ptr<Backend>> backend = OpenDevice();
  if (!backend.ok()) {
    std::fprintf(stderr, "golden: %s\n",
                 std::string(backend.status().message()).c_str());
    return 2;
  }
  static constexpr const char* kWords[] = {"PASSED ", "FAILED ", "SKIPPED"};
  int counts[3] = {};
  for (const std::string& file : files) {
    const CaseResult result = RunCase(directory / file, **backend);
    const int outcome = static_cast<int>(result.outcome);
    ++counts[outcome];
    std::printf("%s %-40s %s\n", kWords[outcome], file.c_str(),
                Describe(result).c_str());
  }
  std::printf("%d passed, %d failed, %d skipped\n", counts[0], counts[1],
              counts[2]);
  return counts[0] > 0 && counts[1] == 0 ? 0 : 1;
}

}  // namespace
}  // namespace recurve::golden

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Compares the engine with recorded runs of the libraries.\n"
      "  golden --dir=tests/testdata/golden");
  absl::ParseCommandLine(argc, argv);
  return recurve::golden::Main();
}
