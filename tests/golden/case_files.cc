#include "tests/golden/case_files.h"

#include <algorithm>
#include <system_error>

namespace recurve::golden {

std::vector<std::string> CaseFiles(const std::filesystem::path& directory) {
  std::vector<std::string> files;
  std::error_code error;
  std::filesystem::recursive_directory_iterator entries(directory, error);
  for (; !error && entries != std::filesystem::recursive_directory_iterator();
       entries.increment(error)) {
    if (entries->path().extension() != ".safetensors") continue;
    files.push_back(entries->path().lexically_relative(directory).string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace recurve::golden
