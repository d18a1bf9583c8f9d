#include "server/services/service_test_util.h"

#include <filesystem>
#include <system_error>

#include "absl/time/clock.h"
#include "google/protobuf/text_format.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"

namespace recurve::server {
namespace {

namespace fs = std::filesystem;

template <typename Message>
Message FromText(const char* text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message));
  return message;
}

std::string TestDirectory() {
  const auto& info = *testing::UnitTest::GetInstance()->current_test_info();
  return testing::TempDir() + "/" + info.test_suite_name() + "." + info.name();
}

}  // namespace

v1::ModelConfig TokenConfig() {
  return FromText<v1::ModelConfig>(R"pb(
    input { token_embedding { vocabulary_size: 5 embedding_size: 4 } }
    blocks { sru { hidden_size: 6 num_layers: 2 } }
    output { linear { size: 5 } }
    loss { kind: CROSS_ENTROPY }
  )pb");
}

v1::ModelConfig FeatureConfig() {
  return FromText<v1::ModelConfig>(R"pb(
    input { features { size: 2 } }
    blocks { qrnn { hidden_size: 4 window: 2 save_prev_x: true } }
    output { linear { size: 3 } }
    loss { kind: CROSS_ENTROPY }
  )pb");
}

v1::TrainerConfig SgdConfig() {
  return FromText<v1::TrainerConfig>(R"pb(
    optimizer { sgd {} }
    learning_rate { peak: 0.1 }
    seed: 1
  )pb");
}

v1::SequenceBatch Tokens(const std::vector<std::vector<int32_t>>& sequences) {
  v1::SequenceBatch batch;
  batch.add_cu_seqlens(0);
  for (const std::vector<int32_t>& sequence : sequences) {
    batch.mutable_tokens()->Add(sequence.begin(), sequence.end());
    batch.add_cu_seqlens(batch.tokens_size());
  }
  return batch;
}

v1::SequenceBatch Features(const std::vector<float>& features,
                           int64_t feature_size) {
  v1::SequenceBatch batch;
  batch.add_cu_seqlens(0);
  batch.add_cu_seqlens(static_cast<int64_t>(features.size()) / feature_size);
  batch.set_features(features.data(), features.size() * sizeof(float));
  return batch;
}

ServiceTest::ServiceTest() : directory(TestDirectory()) {
  fs::remove_all(directory);
  fs::create_directories(directory + "/root");
  config.set_listen("127.0.0.1:0");
  config.set_data_dir(directory + "/data");
  config.set_data_root(directory + "/root");
  config.set_devices("cpu:1,cpu:1");
  Start();
}

ServiceTest::~ServiceTest() {
  Stop();
  fs::remove_all(directory);
}

void ServiceTest::Start() {
  Stop();
  auto server = Server::Start(config);
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  channel = grpc::CreateCustomChannel(
      server_->address(), grpc::InsecureChannelCredentials(), arguments);
  models = v1::Models::NewStub(channel);
  datasets = v1::Datasets::NewStub(channel);
  inference = v1::Inference::NewStub(channel);
  sessions = v1::Sessions::NewStub(channel);
  trainers = v1::Trainers::NewStub(channel);
  jobs = v1::Jobs::NewStub(channel);
  devices = v1::Devices::NewStub(channel);
}

v1::ModelVersion ServiceTest::CreateModel(const std::string& id,
                                          const v1::ModelConfig& config) {
  v1::CreateModelRequest request;
  request.set_model_id(id);
  *request.mutable_config() = config;
  request.set_seed(1);
  v1::Model model;
  ExpectOk(Call(*models, &v1::Models::Stub::CreateModel, request, &model));
  v1::GetModelVersionRequest get;
  get.set_name(model.latest_version());
  v1::ModelVersion version;
  ExpectOk(Call(*models, &v1::Models::Stub::GetModelVersion, get, &version));
  return version;
}

v1::Dataset ServiceTest::Upload(const std::string& id,
                                const std::string& bytes) {
  v1::UploadDatasetRequest::Header header;
  header.set_dataset_id(id);
  header.set_size_bytes(static_cast<int64_t>(bytes.size()));
  v1::Dataset dataset;
  ExpectOk(TryUpload(header, bytes, &dataset));
  return dataset;
}

grpc::Status ServiceTest::TryUpload(
    const v1::UploadDatasetRequest::Header& header, absl::string_view bytes,
    v1::Dataset* dataset) {
  constexpr size_t kChunk = 100;
  grpc::ClientContext context;
  auto writer = datasets->UploadDataset(&context, dataset);
  v1::UploadDatasetRequest message;
  *message.mutable_header() = header;
  bool open = writer->Write(message);
  for (size_t at = 0; open && at < bytes.size(); at += kChunk) {
    const absl::string_view chunk = bytes.substr(at, kChunk);
    message.set_chunk(chunk.data(), chunk.size());
    open = writer->Write(message);
  }
  writer->WritesDone();
  return writer->Finish();
}

int64_t ServiceTest::Rows() {
  v1::ListDevicesResponse list;
  ExpectOk(Call(*devices, &v1::Devices::Stub::ListDevices,
                v1::ListDevicesRequest(), &list));
  int64_t rows = 0;
  for (const v1::Device& device : list.devices()) rows += device.rows();
  return rows;
}

void ServiceTest::WaitForRows() {
  WaitUntil("a device has done rows", [this] { return Rows() > 0; });
}

void ServiceTest::WaitUntil(absl::string_view what,
                            const std::function<bool()>& is_so) {
  const absl::Time deadline = absl::Now() + kPatience;
  while (!is_so()) {
    if (absl::Now() > deadline) {
      ADD_FAILURE() << "not within " << kPatience << ": " << what;
      return;
    }
    absl::SleepFor(absl::Milliseconds(5));
  }
}

std::vector<std::string> ServiceTest::FilesOnDisk() const {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(config.data_dir(), error), end;
       entry != end && !error; entry.increment(error)) {
    const std::string name = entry->path().filename();
    const bool always = name == "LOCK" || name.rfind("jobs.db", 0) == 0;
    if (entry->is_regular_file(error) && !always) {
      files.push_back(entry->path().string());
    }
  }
  // A folder went away while it was being listed.
  return error ? FilesOnDisk() : files;
}

void SetDeadline(grpc::ClientContext& context) {
  context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
}

void ExpectError(const grpc::Status& status, grpc::StatusCode code,
                 const std::string& word) {
  EXPECT_EQ(status.error_code(), code) << status.error_message();
  EXPECT_NE(status.error_message().find(word), std::string::npos)
      << status.error_message();
}

void ExpectOk(const grpc::Status& status) {
  EXPECT_TRUE(status.ok()) << status.error_code() << ": "
                           << status.error_message();
}

}  // namespace recurve::server
