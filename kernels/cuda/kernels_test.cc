// Runs the tests of all kernels on the emulation, and then expects that every
// instantiation that could be launched was, and was compared with a reference.
#include <dirent.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "gtest/gtest.h"
#include "kernels/cuda/emulation/coverage.h"

namespace recurve::cuda {
namespace {

constexpr char kSources[] = "kernels/cuda";

bool IsCudaSource(const std::string& name) {
  return name.size() > 3 && name.compare(name.size() - 3, 3, ".cu") == 0;
}

int CountKernels(const std::string& file) {
  std::ifstream in(std::string(kSources) + "/" + file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::regex kernel("\\b__global__\\b");
  return static_cast<int>(std::distance(
      std::sregex_iterator(text.begin(), text.end(), kernel), {}));
}

int CountKernelsInSources() {
  DIR* directory = opendir(kSources);
  EXPECT_NE(directory, nullptr);
  int count = 0;
  while (const dirent* entry = readdir(directory)) {
    if (IsCudaSource(entry->d_name)) count += CountKernels(entry->d_name);
  }
  closedir(directory);
  return count;
}

// After all tests.
class Coverage : public ::testing::Environment {
 public:
  void TearDown() override {
    if (::testing::GTEST_FLAG(filter) != "*") return;
    for (const std::string& kernel : emulation::UncoveredKernels()) {
      ADD_FAILURE() << "never compared: " << kernel;
    }
    EXPECT_EQ(static_cast<int>(emulation::CoveredKernelTemplates().size()),
              CountKernelsInSources())
        << "__global__ functions of kernels/cuda/*.cu";
  }
};

}  // namespace
}  // namespace recurve::cuda

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  ::testing::AddGlobalTestEnvironment(new recurve::cuda::Coverage);
  return RUN_ALL_TESTS();
}
