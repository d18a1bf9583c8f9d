// That the runner notices: what it does not understand, and what is different.
#include "tests/golden/golden_case.h"

#include <functional>
#include <string>
#include <vector>

#include "engine/model/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/backend.h"
#include "nlohmann/json.hpp"

namespace recurve::golden {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr char kSru[] = "tests/testdata/golden/sru/bi2_c0_masklen.safetensors";
constexpr char kQrnn[] = "tests/testdata/golden/qrnn/savex_2calls.safetensors";

// A golden file with changes.
class ChangedCase {
 public:
  explicit ChangedCase(const std::string& path)
      : file_(*Safetensors::Open(path)),
        tensors_(file_.tensors()),
        metadata_(file_.metadata()),
        config_(json::parse(metadata_["config"])) {}

  json& config() { return config_; }
  MetadataMap& metadata() { return metadata_; }
  TensorMap& tensors() { return tensors_; }
  // Adds to the first number of a float32 tensor.
  void Add(const std::string& name, float difference) {
    ASSERT_TRUE(tensors_.contains(name)) << name;
    FloatTensor& changed = changed_[name];
    changed.shape = tensors_[name].shape;
    changed.values = *ToFloats(name, tensors_[name]);
    changed.values[0] += difference;
  }

  CaseResult Run() {
    metadata_["config"] = config_.dump();
    for (const auto& [name, tensor] : Views(changed_)) tensors_[name] = tensor;
    const std::string path = testing::TempDir() + "/changed.safetensors";
    const absl::Status status = WriteSafetensors(path, tensors_, metadata_);
    EXPECT_TRUE(status.ok()) << status;
    return RunCase(path, *CreateCpuBackend(1));
  }

 private:
  Safetensors file_;
  TensorMap tensors_;
  MetadataMap metadata_;
  json config_;
  FloatTensorMap changed_;
};

void ExpectFailure(ChangedCase& changed, const std::string& says) {
  const CaseResult result = changed.Run();
  EXPECT_EQ(result.outcome, CaseResult::Outcome::kFailed);
  EXPECT_THAT(Describe(result), HasSubstr(says));
}

TEST(RunCase, UnchangedCasesPass) {
  for (const char* path : {kSru, kQrnn}) {
    ChangedCase same(path);
    const CaseResult result = same.Run();
    EXPECT_EQ(result.outcome, CaseResult::Outcome::kPassed) << Describe(result);
  }
}

struct Change {
  const char* path;
  std::function<void(ChangedCase&)> apply;
  const char* says;
};

TEST(RunCase, WhatIsNotUnderstoodFails) {
  const Change changes[] = {
      {kSru, [](auto& c) { c.config()["kwargs"]["gain"] = 1; },
       "kwargs: gain is not understood"},
      {kSru, [](auto& c) { c.config()["kwargs"]["use_tanh"] = "yes"; },
       "use_tanh is not true or false"},
      {kSru, [](auto& c) { c.config()["causal"] = true; },
       "config: causal is not understood"},
      {kSru, [](auto& c) { c.config()["module"] = "GRU"; },
       "module 'GRU' is not understood"},
      {kSru, [](auto& c) { c.config()["custom_m"] = "conv"; }, "custom_m"},
      {kSru,
       [](auto& c) {
         c.config()["L"] = json::array({17, 17});
       },
       "L "},
      {kSru, [](auto& c) { c.metadata()["library"] = "sru 4.0"; },
       "library 'sru 4.0' is not understood"},
      {kSru, [](auto& c) { c.metadata()["note"] = "?"; }, "metadata note"},
      {kQrnn, [](auto& c) { c.config()["kwargs"]["window"] = 3; }, "window: 3"},
      {kQrnn, [](auto& c) { c.config()["kwargs"]["bidirectional"] = true; },
       "bidirectional is not understood"},
      {kQrnn,
       [](auto& c) {
         c.config()["kwargs"]["layers"] = {{{"size", 1}}};
       },
       "layers[0]: size is not understood"},
  };
  for (const Change& change : changes) {
    ChangedCase changed(change.path);
    change.apply(changed);
    ExpectFailure(changed, change.says);
  }
}

TEST(RunCase, MissingAndSurplusTensorsFail) {
  const Change changes[] = {
      {kSru, [](auto& c) { c.tensors()["attn_mask"] = c.tensors()["input"]; },
       "attn_mask is not understood"},
      {kSru, [](auto& c) { c.tensors().erase("output"); }, "no tensor output"},
      {kSru, [](auto& c) { c.tensors().erase("grad.rnn_lst.1.weight"); },
       "no tensor grad.rnn_lst.1.weight"},
      {kSru, [](auto& c) { c.tensors().erase("param.rnn_lst.1.bias"); },
       "rnn_lst.1.bias"},
      {kSru,
       [](auto& c) {
         c.tensors()["input"].shape = {4, 17, 11};
       },
       "input has shape [4, 17, 11]; expected [17, 4, 11]"},
      {kSru, [](auto& c) { c.config()["has_c0"] = false; }, "state_in.c0"},
      {kSru, [](auto& c) { c.config()["mask"] = nullptr; }, "mask_pad"},
      {kQrnn, [](auto& c) { c.config()["kwargs"]["save_prev_x"] = false; },
       "prev_x"},
      {kQrnn, [](auto& c) { c.tensors().erase("input_2"); }, "input_2"},
  };
  for (const Change& change : changes) {
    ChangedCase changed(change.path);
    change.apply(changed);
    ExpectFailure(changed, change.says);
  }
}

TEST(RunCase, DifferencesAreNoticedAndNamed) {
  struct Difference {
    const char* path;
    const char* tensor;
    const char* says;
  };
  for (const Difference& difference : {
           Difference{kSru, "param.rnn_lst.1.weight", "(output)"},
           Difference{kSru, "output", "(output)"},
           Difference{kSru, "loss", "(loss)"},
           Difference{kSru, "state_out.c", "(state_out.c)"},
           Difference{kSru, "grad.input", "(grad.input)"},
           Difference{kSru, "grad.state_in.c0", "(grad.state_in.c0)"},
           Difference{kSru, "grad.rnn_lst.0.bias", "(grad.rnn_lst.0.bias)"},
           Difference{kQrnn, "state_out.prev_x.1", "(state_out.prev_x.1)"},
           Difference{kQrnn, "state_out_2.hidden", "(state_out_2.hidden)"},
           Difference{kQrnn, "grad.input_2", "(grad.input_2)"},
       }) {
    ChangedCase changed(difference.path);
    if (std::string(difference.tensor) == "output") {
      changed.tensors().erase("output_f64");  // the better reference
    }
    changed.Add(difference.tensor, 0.1f);
    ExpectFailure(changed, difference.says);
  }
}

TEST(RunCase, TheWayOfCallingMatters) {
  ChangedCase changed(kQrnn);
  changed.config()["carry_hidden"] = false;
  EXPECT_EQ(changed.Run().outcome, CaseResult::Outcome::kFailed);
  ChangedCase reset(kQrnn);
  reset.config()["reset_between"] = true;
  EXPECT_EQ(reset.Run().outcome, CaseResult::Outcome::kFailed);
}

TEST(RunCase, SruPlusPlusIsSkipped) {
  const CaseResult result = RunCase(
      "tests/testdata/golden/srupp/mem_mask.safetensors", *CreateCpuBackend(1));
  EXPECT_EQ(result.outcome, CaseResult::Outcome::kSkipped);
}

TEST(RunCase, WhatIsNoCaseFails) {
  const auto backend = CreateCpuBackend(1);
  EXPECT_EQ(RunCase("tests/golden/no_such_file", *backend).outcome,
            CaseResult::Outcome::kFailed);
}

}  // namespace
}  // namespace recurve::golden
