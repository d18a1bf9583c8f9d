#include "tests/pressure/test_server.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/faults/workload.h"

namespace recurve::pressure {

v1::ModelConfig TokenModel(int hidden_size) {
  v1::ModelConfig config = faults::SmallConfig();
  config.mutable_blocks(0)->mutable_sru()->set_hidden_size(hidden_size);
  return config;
}

v1::PredictRequest PredictionOf(const std::string& model,
                                const std::vector<int32_t>& tokens) {
  v1::PredictRequest request;
  request.set_model(model);
  v1::SequenceBatch& batch = *request.mutable_batch();
  batch.add_cu_seqlens(0);
  batch.add_cu_seqlens(static_cast<int64_t>(tokens.size()));
  batch.mutable_tokens()->Add(tokens.begin(), tokens.end());
  request.set_want_logits(true);
  return request;
}

std::vector<float> FloatsOf(const std::string& bytes) {
  std::vector<float> floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

TestServer::TestServer(const std::string& devices,
                       const std::vector<std::string>& flags)
    : devices_(devices), flags_(flags) {
  Start();
}

void TestServer::Start() {
  process_ =
      faults::ServerProcess::Start(folder_.path() + "/data", devices_, flags_);
  const auto address = process_->Address();
  EXPECT_TRUE(address.ok()) << address.status();
  address_ = address.value_or("127.0.0.1:1");
  client_ = Client::Connect(address_);
  connection_ = std::make_unique<Connection>(address_);
  models_ = v1::Models::NewStub(
      grpc::CreateChannel(address_, grpc::InsecureChannelCredentials()));
}

void TestServer::Restart() {
  client_.reset();
  connection_.reset();
  models_.reset();
  EXPECT_EQ(process_->Terminate(), 0) << process_->Log();
  Start();
}

void TestServer::CreateModel(const std::string& id,
                             const v1::ModelConfig& config, uint64_t seed) {
  v1::CreateModelRequest request;
  request.set_model_id(id);
  *request.mutable_config() = config;
  request.set_seed(seed);
  const auto model = client_->CreateModel(request);
  EXPECT_TRUE(model.ok()) << model.status();
}

void TestServer::Publish(const std::string& from, const std::string& to) {
  const auto version = client_->GetModelVersion("models/" + from);
  ASSERT_TRUE(version.ok()) << version.status();
  std::string weights;
  bool is_weights = false;
  const absl::Status exported = client_->ExportModel(
      "models/" + from,
      [&](const std::string& file_name, absl::string_view chunk) {
        if (!file_name.empty()) is_weights = file_name == "model.safetensors";
        if (is_weights) absl::StrAppend(&weights, chunk);
        return absl::OkStatus();
      });
  ASSERT_TRUE(exported.ok()) << exported;
  v1::ImportModelRequest::Header header;
  header.set_model_id(to);
  *header.mutable_config() = version->config();
  const auto published = client_->ImportModel(header, weights);
  EXPECT_TRUE(published.ok()) << published.status();
}

std::vector<float> TestServer::Predict(const std::string& model,
                                       const std::vector<int32_t>& tokens) {
  const auto response = client_->Predict(PredictionOf(model, tokens));
  EXPECT_TRUE(response.ok()) << response.status();
  return response.ok() ? FloatsOf(response->logits()) : std::vector<float>();
}

std::vector<v1::Device> TestServer::Devices() {
  const auto list = client_->ListDevices();
  EXPECT_TRUE(list.ok()) << list.status();
  if (!list.ok()) return {};
  return {list->devices().begin(), list->devices().end()};
}

std::vector<int64_t> TestServer::ReservedBytes() {
  std::vector<int64_t> bytes;
  for (const v1::Device& device : Devices()) {
    bytes.push_back(device.reserved_bytes());
  }
  return bytes;
}

int64_t TestServer::Rows() {
  int64_t rows = 0;
  for (const v1::Device& device : Devices()) rows += device.rows();
  return rows;
}

}  // namespace recurve::pressure
