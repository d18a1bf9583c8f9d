// Finds golden cases.
#ifndef RECURVE_TESTS_GOLDEN_CASE_FILES_H_
#define RECURVE_TESTS_GOLDEN_CASE_FILES_H_

#include <filesystem>
#include <string>
#include <vector>

namespace recurve::golden {

// The .safetensors files under a folder, relative to it, sorted; none if it
// cannot be read.
std::vector<std::string> CaseFiles(const std::filesystem::path& directory);

}  // namespace recurve::golden

#endif  // RECURVE_TESTS_GOLDEN_CASE_FILES_H_
