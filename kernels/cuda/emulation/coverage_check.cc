#include "kernels/cuda/emulation/coverage_check.h"

#include <fstream>
#include <iterator>
#include <set>

#include "kernels/cuda/emulation/coverage.h"

namespace recurve::cuda::emulation {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file),
          std::istreambuf_iterator<char>()};
}

}  // namespace

int CountGlobalFunctions(std::string_view source) {
  constexpr std::string_view kMark = "__global__";
  int count = 0;
  while (!source.empty()) {
    std::string_view line = source.substr(0, source.find('\n'));
    source.remove_prefix(std::min(line.size() + 1, source.size()));
    line = line.substr(0, line.find("//"));
    for (size_t at = line.find(kMark); at != line.npos;
         at = line.find(kMark, at + kMark.size())) {
      ++count;
    }
  }
  return count;
}

std::vector<std::string> MissingCoverage(
    const std::vector<std::string>& source_paths) {
  std::vector<std::string> lines;
  for (const std::string& name : UncoveredKernels()) {
    lines.push_back("no comparison follows a launch of " + name);
  }
  if (source_paths.empty()) return lines;
  int written = 0;
  for (const std::string& path : source_paths) {
    written += CountGlobalFunctions(ReadFile(path));
  }
  int covered = static_cast<int>(CoveredKernelTemplates().size());
  if (covered != written) {
    lines.push_back("the sources have " + std::to_string(written) +
                    " __global__ functions, compared were " +
                    std::to_string(covered));
  }
  return lines;
}

}  // namespace recurve::cuda::emulation
