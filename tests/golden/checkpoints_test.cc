// The libraries' reference checkpoints, imported: logits, losses and states of
// whole models against those that the libraries gave.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/config.h"
#include "engine/model/executor.h"
#include "engine/model/library_import.h"
#include "engine/model/model.h"
#include "engine/model/safetensors.h"
#include "gtest/gtest.h"
#include "kernels/cpu/backend.h"
#include "nlohmann/json.hpp"
#include "tests/golden/comparison.h"

namespace recurve::golden {
namespace {

constexpr char kDirectory[] = "tests/testdata/checkpoints/";

std::string Read(const std::string& name) {
  std::ifstream file(kDirectory + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// heldout.txt as token ids; its characters are single bytes.
std::vector<int32_t> HeldOutTokens() {
  std::map<char, int32_t> ids;
  for (const auto& entry : nlohmann::json::parse(Read("vocab.json"))) {
    const int32_t id = ids.size();
    ids[entry.get<std::string>()[0]] = id;
  }
  std::vector<int32_t> tokens;
  for (const char c : Read("heldout.txt")) tokens.push_back(ids.at(c));
  return tokens;
}

struct Reference {
  const char* name;
  double loss;            // float32, chunks of 1000, state carried
  double loss_of_sevens;  // chunks of 7
};

class CheckpointsTest : public testing::TestWithParam<Reference> {
 protected:
  void SetUp() override {
    const std::string name = GetParam().name;
    const auto config = ParseModelConfig(Read(name + ".textproto"));
    ASSERT_TRUE(config.ok()) << config.status();
    auto model = Model::Create(*config);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *model;
    const auto file = Safetensors::Open(kDirectory + name + ".safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    auto imported = ImportLibrary(*model_, file->tensors(), ImportOptions());
    ASSERT_TRUE(imported.ok()) << imported.status();
    parameters_ = std::move(imported->parameters);
    // The CPU's memory is the host's.
    auto executor = Executor::Create(model_, *backend_, parameters_.data(),
                                     ParameterUse::kFixed);
    ASSERT_TRUE(executor.ok()) << executor.status();
    executor_ = *std::move(executor);
  }

  ForwardResult Forward(const SequenceBatch& batch) {
    ForwardArgs args;
    args.batch = &batch;
    args.state = state_;
    const auto result = executor_->Forward(args);
    EXPECT_TRUE(result.ok()) << result.status();
    state_ = Host(result->state);
    return *result;
  }

  static std::vector<float> Host(Matrix<const float> m) {
    return {m.data, m.data + m.rows * m.cols};
  }

  // Mean over the predictions of each token from those before it.
  double HeldOutLoss(int64_t chunk_rows) {
    const std::vector<int32_t> tokens = HeldOutTokens();
    const int64_t count = static_cast<int64_t>(tokens.size()) - 1;
    LossResult total;
    for (int64_t first = 0; first < count; first += chunk_rows) {
      const auto begin = tokens.begin() + first;
      const int64_t rows = std::min(chunk_rows, count - first);
      Forward({{0, rows}, {begin, begin + rows}, {}});
      const auto loss =
          executor_->Loss({{begin + 1, begin + rows + 1}, {}, {}});
      EXPECT_TRUE(loss.ok()) << loss.status();
      total.loss += loss->loss;
      total.weight += loss->weight;
    }
    EXPECT_EQ(total.weight, 24000);
    return total.loss / total.weight;
  }

  std::unique_ptr<Backend> backend_ = CreateCpuBackend(1);
  std::shared_ptr<const Model> model_;
  std::vector<float> parameters_;
  std::unique_ptr<Executor> executor_;
  std::vector<float> state_;
};

TEST_P(CheckpointsTest, LogitsAreTheLibrarys) {
  const auto file = Safetensors::Open(
      std::string(kDirectory) + GetParam().name + ".reference.safetensors");
  ASSERT_TRUE(file.ok()) << file.status();
  const auto ids = ToIntegers("input_ids", *file->Find("input_ids"));
  const auto logits = ToDoubles("logits_f64", *file->Find("logits_f64"));
  ASSERT_TRUE(ids.ok() && logits.ok());
  const ForwardResult result =
      Forward({{0, 64}, {ids->begin(), ids->end()}, {}});
  EXPECT_LT(Error(Host(result.output), *logits), 1e-5);
}

TEST_P(CheckpointsTest, HeldOutLossAndFinalState) {
  EXPECT_NEAR(HeldOutLoss(1000), GetParam().loss, 1e-6);
  const auto file = Safetensors::Open(
      std::string(kDirectory) + GetParam().name + ".reference.safetensors");
  const auto expected =
      ToDoubles("final_state_f64", *file->Find("final_state_f64"));
  ASSERT_TRUE(expected.ok());
  std::vector<float> state;
  for (const Layer& layer : model_->layers()) {
    const auto first = state_.begin() + layer.c_offset;
    state.insert(state.end(), first, first + layer.channels());
  }
  // After 24000 float32 steps the libraries themselves are off by 5.4e-5.
  EXPECT_LT(Error(state, *expected), 1e-4);

  state_.clear();
  EXPECT_NEAR(HeldOutLoss(7), GetParam().loss_of_sevens, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(
    Libraries, CheckpointsTest,
    testing::Values(Reference{"sru_charlm", 1.2137655442, 1.2137655504},
                    Reference{"qrnn_charlm", 1.2396027173, 1.2396027194}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace recurve::golden
