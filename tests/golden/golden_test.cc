#include <cctype>
#include <string>

#include "gtest/gtest.h"
#include "tests/golden/case_files.h"
#include "tests/golden/golden_case.h"
#include "tests/golden/test_backend.h"

namespace recurve::golden {
namespace {

constexpr char kDirectory[] = "tests/testdata/golden";

class GoldenTest : public testing::TestWithParam<std::string> {};

TEST_P(GoldenTest, AgreesWithTheLibrary) {
  const auto backend = CreateTestBackend();
  const CaseResult result =
      RunCase(std::string(kDirectory) + "/" + GetParam(), *backend);
  if (result.outcome == CaseResult::Outcome::kSkipped) {
    GTEST_SKIP() << result.reason;
  }
  EXPECT_EQ(result.outcome, CaseResult::Outcome::kPassed) << Describe(result);
}

// "sru_bi1_k3" for sru/bi1_k3.safetensors.
std::string CaseName(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(0, info.param.rfind('.'));
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Libraries, GoldenTest,
                         testing::ValuesIn(CaseFiles(kDirectory)), CaseName);

}  // namespace
}  // namespace recurve::golden
