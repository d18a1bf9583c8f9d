#include "server/kserve/output_tensors.h"

#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "engine/serve/model_version.h"
#include "gtest/gtest.h"
#include "server/kserve/decode_test_util.h"

namespace recurve::server::kserve {
namespace {

using Floats = std::vector<float>;
using Longs = std::vector<int64_t>;

template <typename T>
std::vector<T> Numbers(const std::string& bytes) {
  std::vector<T> numbers(bytes.size() / sizeof(T));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

Longs ShapeOf(const inference::ModelInferResponse& response, int output) {
  const auto& shape = response.outputs(output).shape();
  return Longs(shape.begin(), shape.end());
}

// Of `rows` output rows, and hidden rows as many as there are steps.
Prediction Numbered(std::shared_ptr<const Model> model, int64_t rows,
                    int64_t steps, std::vector<std::string> vocabulary = {}) {
  Prediction prediction;
  prediction.version =
      ModelVersion::InMemory(model, {}, "m", std::move(vocabulary));
  prediction.rows = rows;
  prediction.columns = model->output_size();
  prediction.hidden_columns = model->hidden_channels();
  prediction.logits.resize(rows * prediction.columns);
  std::iota(prediction.logits.begin(), prediction.logits.end(), 1.f);
  prediction.classes.resize(rows);
  std::iota(prediction.classes.begin(), prediction.classes.end(), 1);
  prediction.hidden.resize(steps * prediction.hidden_columns, 0.5f);
  return prediction;
}

std::vector<RequestedOutput> Outputs(const Model& model,
                                     const std::vector<std::string>& names) {
  inference::ModelInferRequest request;
  for (const std::string& name : names) request.add_outputs()->set_name(name);
  return ReadOutputs(request, model, /*top_k=*/0, SharedMemoryRegions())
      .value();
}

TEST(OutputTensorsTest, StepsArePaddedWithZeros) {
  const auto model = FeatureModel();
  inference::ModelInferResponse response;
  // Sequences of 1 and 2 rows, padded to 3.
  ASSERT_TRUE(WriteOutputs(Outputs(*model, {"logits", "classes"}),
                           Numbered(model, 3, 3), {{0, 1, 3}, 3}, &response)
                  .ok());
  ASSERT_EQ(response.outputs_size(), 2);
  ASSERT_EQ(response.raw_output_contents_size(), 2);
  EXPECT_EQ(response.outputs(0).name(), "logits");
  EXPECT_EQ(response.outputs(0).datatype(), "FP32");
  EXPECT_EQ(ShapeOf(response, 0), (Longs{2, 3, 3}));
  EXPECT_EQ(Numbers<float>(response.raw_output_contents(0)),
            (Floats{1, 2, 3, 0, 0, 0, 0, 0, 0,  //
                    4, 5, 6, 7, 8, 9, 0, 0, 0}));
  EXPECT_EQ(response.outputs(1).datatype(), "INT32");
  EXPECT_EQ(ShapeOf(response, 1), (Longs{2, 3}));
  EXPECT_EQ(Numbers<int32_t>(response.raw_output_contents(1)),
            (std::vector<int32_t>{1, 0, 0, 2, 3, 0}));
}

TEST(OutputTensorsTest, PooledOutputsHaveNoSteps) {
  const auto model = PoolingModel();
  inference::ModelInferResponse response;
  ASSERT_TRUE(WriteOutputs(Outputs(*model, {"logits", "classes", "hidden"}),
                           Numbered(model, 2, 3), {{0, 1, 3}, 2}, &response)
                  .ok());
  EXPECT_EQ(ShapeOf(response, 0), (Longs{2, 3}));
  EXPECT_EQ(Numbers<float>(response.raw_output_contents(0)),
            (Floats{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(ShapeOf(response, 1), (Longs{2, 1}));
  EXPECT_EQ(ShapeOf(response, 2), (Longs{2, 2, 4}));
  EXPECT_EQ(
      Numbers<float>(response.raw_output_contents(2)),
      (Floats{.5, .5, .5, .5, 0, 0, 0, 0, .5, .5, .5, .5, .5, .5, .5, .5}));
}

TEST(OutputTensorsTest, AClassificationIsTextWithTheVocabularysWords) {
  const auto model = TokenModel();
  std::vector<RequestedOutput> outputs = Outputs(*model, {"logits"});
  outputs[0].classification = 2;
  inference::ModelInferResponse response;
  ASSERT_TRUE(WriteOutputs(outputs,
                           Numbered(model, 1, 1, {"a", "b", "c", "d", "e"}),
                           {{0, 1}, 2}, &response)
                  .ok());
  EXPECT_EQ(response.outputs(0).datatype(), "BYTES");
  EXPECT_EQ(ShapeOf(response, 0), (Longs{1, 2, 2}));
  const std::string length("\x0c\0\0\0", 4), none(4, '\0');
  EXPECT_EQ(response.raw_output_contents(0),
            length + "5.000000:4:e" + length + "4.000000:3:d" + none + none);

  Prediction bad = Numbered(model, 1, 1);
  bad.logits[3] = NAN;
  EXPECT_TRUE(absl::IsFailedPrecondition(
      WriteOutputs(outputs, bad, {{0, 1}, 2}, &response)));
}

}  // namespace
}  // namespace recurve::server::kserve
