// Parameters of every recorded case, imported and exported: the same bits under
// the same keys.

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "engine/model/library_export.h"
#include "engine/model/library_import.h"
#include "engine/model/model.h"
#include "engine/model/safetensors.h"
#include "gtest/gtest.h"
#include "tests/golden/case_config.h"
#include "tests/golden/case_files.h"
#include "tests/golden/case_tensors.h"

namespace recurve::golden {
namespace {

constexpr char kDirectory[] = "tests/testdata/golden";

class LibraryRoundTripTest : public testing::TestWithParam<std::string> {};

TEST_P(LibraryRoundTripTest, KeepsEveryBit) {
  const auto file =
      Safetensors::Open(std::string(kDirectory) + "/" + GetParam());
  ASSERT_TRUE(file.ok()) << file.status();
  const auto config = ReadCaseConfig(file->metadata());
  ASSERT_TRUE(config.ok()) << config.status();
  const auto model = Model::Create(config->model);
  ASSERT_TRUE(model.ok()) << model.status();
  const TensorMap tensors = CaseTensors(*file).WithPrefix("param.");
  ASSERT_FALSE(tensors.empty());
  const auto imported = ImportLibrary(**model, tensors, {});
  ASSERT_TRUE(imported.ok()) << imported.status();

  const FloatTensorMap out =
      ExportLibrary(**model, imported->parameters, imported->names);
  EXPECT_EQ(out.size(), tensors.size());
  for (const auto& [key, tensor] : tensors) {
    ASSERT_TRUE(out.contains(key)) << key;
    EXPECT_EQ(out.at(key).shape, tensor.shape) << key;
    const std::vector<float>& values = out.at(key).values;
    ASSERT_EQ(values.size() * sizeof(float), tensor.bytes.size()) << key;
    EXPECT_EQ(
        std::memcmp(values.data(), tensor.bytes.data(), tensor.bytes.size()), 0)
        << key;
  }
}

std::vector<std::string> CasesOfSruAndQrnn() {
  std::vector<std::string> cases;
  for (const std::string& name : CaseFiles(kDirectory)) {
    if (!absl::StartsWith(name, "srupp/")) cases.push_back(name);
  }
  return cases;
}

std::string TestName(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param.substr(0, info.param.rfind('.'));
  for (char& c : name) c = c == '/' ? '_' : c;
  return name;
}

INSTANTIATE_TEST_SUITE_P(Recorded, LibraryRoundTripTest,
                         testing::ValuesIn(CasesOfSruAndQrnn()), TestName);

// Cases of the third kind are recognised.
TEST(LibraryRoundTrip, SruPlusPlusIsRefused) {
  const auto model = Model::Create([] {
    v1::ModelConfig config;
    config.mutable_input()->mutable_features()->set_size(3);
    config.add_blocks()->mutable_sru()->set_hidden_size(2);
    return config;
  }());
  ASSERT_TRUE(model.ok()) << model.status();
  int refused = 0;
  for (const std::string& name : CaseFiles(kDirectory)) {
    if (!absl::StartsWith(name, "srupp/")) continue;
    const auto file = Safetensors::Open(std::string(kDirectory) + "/" + name);
    ASSERT_TRUE(file.ok()) << file.status();
    const absl::Status status =
        ImportLibrary(**model, CaseTensors(*file).WithPrefix("param."), {})
            .status();
    EXPECT_TRUE(absl::StrContains(status.message(), "SRU++")) << status;
    ++refused;
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace recurve::golden
