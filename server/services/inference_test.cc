#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "server/services/service_test_util.h"

namespace recurve::server {
namespace {

using grpc::StatusCode;
using Stub = v1::Inference::Stub;

std::vector<float> Floats(const std::string& bytes) {
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

class InferenceTest : public ServiceTest {
 protected:
  grpc::Status Predict(const v1::PredictRequest& request,
                       v1::PredictResponse* response) {
    return Call(*inference, &Stub::Predict, request, response);
  }
  grpc::Status Evaluate(const v1::EvaluateRequest& request,
                        v1::EvaluateResponse* response) {
    return Call(*inference, &Stub::Evaluate, request, response);
  }
  static v1::PredictRequest TokenRequest() {
    v1::PredictRequest request;
    request.set_model("models/lm");
    *request.mutable_batch() = Tokens({{0, 1, 2}, {4}});
    return request;
  }
};

TEST_F(InferenceTest, PredictsWhatIsAskedFor) {
  CreateModel("lm", TokenConfig());
  v1::PredictRequest request = TokenRequest();
  v1::PredictResponse logits_alone;
  ExpectOk(Predict(request, &logits_alone));
  EXPECT_EQ(logits_alone.model_version(), "models/lm/versions/1");
  EXPECT_EQ(logits_alone.rows(), 4);
  EXPECT_EQ(logits_alone.columns(), 5);
  EXPECT_EQ(Floats(logits_alone.logits()).size(), 20u);
  EXPECT_TRUE(logits_alone.probabilities().empty());

  request.set_want_probabilities(true);
  request.set_top_k(2);
  request.set_want_class(true);
  request.set_want_hidden(true);
  request.set_want_state(true);
  v1::PredictResponse response;
  ExpectOk(Predict(request, &response));
  EXPECT_TRUE(response.logits().empty());
  const std::vector<float> probabilities = Floats(response.probabilities());
  ASSERT_EQ(probabilities.size(), 20u);
  ASSERT_EQ(response.top_k_size(), 4);
  for (int r = 0; r < 4; ++r) {
    const auto& top = response.top_k(r);
    EXPECT_EQ(top.classes(0), response.classes(r));
    EXPECT_EQ(top.probabilities(1), probabilities[r * 5 + top.classes(1)]);
    EXPECT_GE(top.probabilities(0), top.probabilities(1));
  }
  EXPECT_EQ(response.hidden_columns(), 6);
  EXPECT_EQ(Floats(response.hidden()).size(), 24u);
  EXPECT_EQ(Floats(response.state()).size(), 24u);
}

TEST_F(InferenceTest, StateGoesOutAndIn) {
  CreateModel("features", FeatureConfig());
  v1::PredictRequest request;
  request.set_model("models/features/versions/1");
  const std::vector<float> rows = {1, 2, 3, 4, 5, 6, 7, 8};
  *request.mutable_batch() = Features(rows, 2);
  request.set_want_logits(true);
  v1::PredictResponse whole, first, second;
  ExpectOk(Predict(request, &whole));
  request.set_want_state(true);
  *request.mutable_batch() = Features({1, 2, 3, 4}, 2);
  ExpectOk(Predict(request, &first));
  request.set_state(first.state());
  *request.mutable_batch() = Features({5, 6, 7, 8}, 2);
  ExpectOk(Predict(request, &second));
  EXPECT_EQ(first.logits() + second.logits(), whole.logits());
}

TEST_F(InferenceTest, BadInputIsInvalidArgumentThatSaysWhere) {
  CreateModel("lm", TokenConfig());
  CreateModel("features", FeatureConfig());
  const auto expect = [this](const v1::PredictRequest& request,
                             const std::string& word) {
    v1::PredictResponse response;
    ExpectError(Predict(request, &response), StatusCode::INVALID_ARGUMENT,
                word);
  };
  v1::PredictRequest request = TokenRequest();
  request.mutable_batch()->set_tokens(3, 5);
  expect(request, "5");
  request.mutable_batch()->set_tokens(3, -1);
  expect(request, "-1");
  request = TokenRequest();
  request.mutable_batch()->clear_cu_seqlens();
  expect(request, "cu_seqlens");
  request.mutable_batch()->add_cu_seqlens(0);
  expect(request, "");  // no sequence
  request = TokenRequest();
  request.mutable_batch()->set_cu_seqlens(1, 5);  // 0 5 4
  expect(request, "cu_seqlens");
  request.mutable_batch()->set_cu_seqlens(1, 4);  // 0 4 4: zero length
  expect(request, "1");
  request.mutable_batch()->set_cu_seqlens(0, 1);
  expect(request, "cu_seqlens");
  request = TokenRequest();
  request.mutable_batch()->set_cu_seqlens(2, 100);
  expect(request, "");
  request.mutable_batch()->set_cu_seqlens(2, int64_t{1} << 62);
  expect(request, "");
  request = TokenRequest();
  *request.mutable_batch() = Features({1, 2}, 2);
  expect(request, "tokens");
  *request.mutable_batch() = v1::SequenceBatch();
  expect(request, "cu_seqlens");
  request = TokenRequest();
  request.set_state("12345");
  expect(request, "state");
  request.set_state("1234");
  expect(request, "state");
  request = TokenRequest();
  request.set_top_k(6);
  expect(request, "top_k");
  request.set_top_k(-1);
  expect(request, "top_k");

  request = v1::PredictRequest();
  request.set_model("models/features");
  *request.mutable_batch() = Features({1, 2, 3, NAN}, 2);
  expect(request, "1");
  *request.mutable_batch() = Features({1, 2, INFINITY, 4}, 2);
  expect(request, "1");
  *request.mutable_batch() =
      Features({1, 2, 3}, 3);  // 3 numbers for 1 row of 2
  expect(request, "features");
  *request.mutable_batch() = Tokens({{1}});
  expect(request, "features");
}

// Requests with a few numbers replaced by extreme ones: answered or refused,
// and the server is as well as before.
TEST_F(InferenceTest, StrangeRequestsAreAnsweredOrRefused) {
  CreateModel("lm", TokenConfig());
  std::mt19937 random(1);
  const auto strange = [&] {
    constexpr int64_t kNumbers[] = {
        INT64_MIN, INT32_MIN, -1,        0,       1,         2,
        4,         5,         INT32_MAX, 1 << 20, INT64_MAX, int64_t{1} << 40};
    return kNumbers[random() % std::size(kNumbers)];
  };
  int answered = 0;
  for (int i = 0; i < 1000; ++i) {
    v1::PredictRequest request = TokenRequest();
    v1::SequenceBatch& batch = *request.mutable_batch();
    batch.set_cu_seqlens(random() % batch.cu_seqlens_size(), strange());
    if (random() % 2) batch.set_tokens(random() % 4, strange());
    if (random() % 4 == 0) batch.add_cu_seqlens(strange());
    if (random() % 4 == 0) request.set_top_k(strange());
    if (random() % 4 == 0) request.set_state(std::string(random() % 99, 'x'));
    if (random() % 4 == 0) batch.set_features(std::string(random() % 99, 'x'));
    v1::PredictResponse response;
    const grpc::Status status = Predict(request, &response);
    if (status.ok()) {
      ++answered;
    } else {
      EXPECT_EQ(status.error_code(), StatusCode::INVALID_ARGUMENT)
          << status.error_message() << request.DebugString();
    }
  }
  EXPECT_GT(answered, 0);
  v1::PredictResponse response;
  ExpectOk(Predict(TokenRequest(), &response));
}

TEST_F(InferenceTest, ModelsThatAreNotThere) {
  v1::PredictRequest request = TokenRequest();
  v1::PredictResponse response;
  ExpectError(Predict(request, &response), StatusCode::NOT_FOUND, "models/lm");
  CreateModel("lm", TokenConfig());
  request.set_model("models/lm/versions/2");
  ExpectError(Predict(request, &response), StatusCode::NOT_FOUND,
              "newest version of models/lm is 1");
  request.set_model("lm");
  ExpectError(Predict(request, &response), StatusCode::INVALID_ARGUMENT,
              "models/ID");
}

TEST_F(InferenceTest, BidirectionalModelsHaveNoState) {
  v1::ModelConfig config = TokenConfig();
  config.mutable_blocks(0)->mutable_sru()->set_bidirectional(true);
  EXPECT_EQ(CreateModel("lm", config).state_size(), 0);
  v1::PredictRequest request = TokenRequest();
  v1::PredictResponse response;
  ExpectOk(Predict(request, &response));
  request.set_want_state(true);
  ExpectError(Predict(request, &response), StatusCode::FAILED_PRECONDITION,
              "bidirectional");
}

TEST_F(InferenceTest, LimitsAreResourceExhausted) {
  config.set_max_message_bytes(10000);
  config.set_max_request_rows(500);
  Start();
  CreateModel("lm", TokenConfig());
  v1::PredictResponse response;
  v1::PredictRequest request = TokenRequest();
  *request.mutable_batch() = Tokens({std::vector<int32_t>(501, 1)});
  ExpectError(Predict(request, &response), StatusCode::RESOURCE_EXHAUSTED,
              "500");
  *request.mutable_batch() = Tokens({std::vector<int32_t>(500, 1)});
  ExpectError(Predict(request, &response), StatusCode::RESOURCE_EXHAUSTED,
              "results");  // 500 x 5 float32 take 10000 bytes
  request.set_want_class(true);
  ExpectOk(Predict(request, &response));
  *request.mutable_batch() = Tokens({std::vector<int32_t>(20000, 1)});
  ExpectError(Predict(request, &response), StatusCode::RESOURCE_EXHAUSTED, "");
}

TEST_F(InferenceTest, AModelBeyondTheDevicesMemoryIsRefused) {
  config.set_devices("cpu:1:memory=8MiB");
  Start();
  CreateModel("lm", TokenConfig());
  v1::ModelConfig large = TokenConfig();
  large.mutable_blocks(0)->mutable_sru()->set_hidden_size(1024);
  large.mutable_blocks(0)->mutable_sru()->set_num_layers(2);
  CreateModel("large", large);
  v1::PredictRequest request = TokenRequest();
  request.set_model("models/large");
  v1::PredictResponse response;
  ExpectError(Predict(request, &response), StatusCode::RESOURCE_EXHAUSTED,
              "the budget of devices/0 is 8.0 MiB");
  ExpectOk(Predict(TokenRequest(), &response));
}

TEST_F(InferenceTest, ADeadlineThatHasPassed) {
  CreateModel("lm", TokenConfig());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() -
                       std::chrono::seconds(1));
  v1::PredictResponse response;
  EXPECT_EQ(
      inference->Predict(&context, TokenRequest(), &response).error_code(),
      StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(InferenceTest, ADeadlineInTheMiddleStopsTheWork) {
  config.set_max_batch_rows(1);
  config.set_max_request_rows(1 << 22);
  Start();
  v1::ModelConfig large = TokenConfig();
  large.mutable_blocks(0)->mutable_sru()->set_hidden_size(512);
  CreateModel("lm", large);
  v1::PredictRequest request = TokenRequest();
  *request.mutable_batch() = Tokens({std::vector<int32_t>(1000000, 1)});
  request.set_want_class(true);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(300));
  v1::PredictResponse response;
  EXPECT_EQ(inference->Predict(&context, request, &response).error_code(),
            StatusCode::DEADLINE_EXCEEDED);
  // The devices are free again at once.
  *request.mutable_batch() = Tokens({{1}});
  ExpectOk(Predict(request, &response));
  v1::ListDevicesResponse list;
  ExpectOk(Call(*devices, &v1::Devices::Stub::ListDevices,
                v1::ListDevicesRequest(), &list));
  ASSERT_EQ(list.devices_size(), 2);
  EXPECT_EQ(list.devices(0).name(), "devices/0");
  EXPECT_EQ(list.devices(1).spec(), "cpu:1");
  EXPECT_LT(list.devices(0).rows() + list.devices(1).rows(), 1000000);
  EXPECT_GT(list.devices(0).rows() + list.devices(1).rows(), 0);
}

TEST_F(InferenceTest, EvaluatesBatchesAndText) {
  v1::CreateModelRequest create;
  create.set_model_id("lm");
  *create.mutable_config() = TokenConfig();
  for (const char* token : {"a", "b", "c", "d", "e"}) {
    create.add_vocabulary(token);
  }
  v1::Model model;
  ExpectOk(Call(*models, &v1::Models::Stub::CreateModel, create, &model));
  Upload("text", "abcdeabc");

  v1::EvaluateRequest text;
  text.set_model("models/lm");
  text.mutable_source()->set_dataset("datasets/text");
  v1::EvaluateResponse whole;
  ExpectOk(Evaluate(text, &whole));
  EXPECT_EQ(whole.rows(), 7);
  EXPECT_EQ(whole.weight(), 7);
  EXPECT_GT(whole.loss(), 0);
  text.set_chunk_rows(2);
  v1::EvaluateResponse chunks;
  ExpectOk(Evaluate(text, &chunks));
  EXPECT_NE(chunks.loss(), whole.loss());
  text.set_carry_state(true);
  ExpectOk(Evaluate(text, &chunks));
  EXPECT_NEAR(chunks.loss(), whole.loss(), 1e-6);

  v1::EvaluateRequest batch;
  batch.set_model("models/lm");
  *batch.mutable_batch() = Tokens({{0, 1, 2, 3, 4, 0, 1, 2}});
  v1::EvaluateResponse next_token;
  ExpectOk(Evaluate(batch, &next_token));
  EXPECT_NEAR(next_token.loss(), whole.loss(), 1e-6);
  for (int32_t c : {1, 2, 3, 4, 0, 1, 2, -1}) {
    batch.mutable_targets()->add_classes(c);
  }
  ExpectOk(Evaluate(batch, &next_token));
  EXPECT_NEAR(next_token.loss(), whole.loss(), 1e-6);
}

TEST_F(InferenceTest, EvaluateSaysWhatIsWrong) {
  CreateModel("lm", TokenConfig());
  v1::EvaluateRequest request;
  request.set_model("models/none");
  v1::EvaluateResponse response;
  ExpectError(Evaluate(request, &response), StatusCode::NOT_FOUND, "none");
  request.set_model("models/lm");
  ExpectError(Evaluate(request, &response), StatusCode::INVALID_ARGUMENT,
              "source or a batch");
  request.mutable_source()->set_dataset("datasets/none");
  ExpectError(Evaluate(request, &response), StatusCode::NOT_FOUND, "none");
  request.mutable_source()->set_server_path("../x");
  ExpectError(Evaluate(request, &response), StatusCode::INVALID_ARGUMENT, "");
  *request.mutable_batch() = Tokens({{1, 2}});
  request.mutable_targets()->add_classes(1);
  ExpectError(Evaluate(request, &response), StatusCode::INVALID_ARGUMENT,
              "targets");
  request.mutable_targets()->add_classes(5);
  ExpectError(Evaluate(request, &response), StatusCode::INVALID_ARGUMENT, "5");
  request.set_chunk_rows(2);
  ExpectError(Evaluate(request, &response), StatusCode::INVALID_ARGUMENT,
              "chunk_rows");
}

}  // namespace
}  // namespace recurve::server
