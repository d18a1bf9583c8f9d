#include <filesystem>
#include <fstream>
#include <string>

#include "server/services/service_test_util.h"

namespace recurve::server {
namespace {

using grpc::StatusCode;
using Stub = v1::Datasets::Stub;

class DatasetsTest : public ServiceTest {
 protected:
  grpc::Status Get(const std::string& name, v1::Dataset* dataset) {
    v1::GetDatasetRequest request;
    request.set_name(name);
    return Call(*datasets, &Stub::GetDataset, request, dataset);
  }

  std::vector<v1::ReadBatchesResponse> ReadBatches(const v1::TrainSpec& spec,
                                                   grpc::Status* status) {
    v1::ReadBatchesRequest request;
    *request.mutable_spec() = spec;
    grpc::ClientContext context;
    auto reader = datasets->ReadBatches(&context, request);
    std::vector<v1::ReadBatchesResponse> batches;
    v1::ReadBatchesResponse batch;
    while (reader->Read(&batch)) batches.push_back(batch);
    *status = reader->Finish();
    return batches;
  }

  static v1::TrainSpec Spec() {
    v1::TrainSpec spec;
    spec.set_model("models/lm");
    *spec.mutable_config() = TokenConfig();
    spec.mutable_data()->set_dataset("datasets/text");
    spec.mutable_format()->mutable_text();
    spec.mutable_loader()->set_batch_size(2);
    spec.mutable_loader()->set_unroll(3);
    *spec.mutable_trainer() = SgdConfig();
    spec.set_max_epochs(2);
    return spec;
  }
};

TEST_F(DatasetsTest, UploadsGetsListsAndDeletes) {
  const std::string bytes(1234, 'x');
  const v1::Dataset uploaded = Upload("text", bytes);
  EXPECT_EQ(uploaded.name(), "datasets/text");
  EXPECT_EQ(uploaded.size_bytes(), 1234);
  EXPECT_EQ(uploaded.sha256().size(), 64u);
  v1::Dataset got;
  ExpectOk(Get("datasets/text", &got));
  EXPECT_EQ(got.SerializeAsString(), uploaded.SerializeAsString());

  v1::ListDatasetsResponse page;
  ExpectOk(
      Call(*datasets, &Stub::ListDatasets, v1::ListDatasetsRequest(), &page));
  EXPECT_EQ(page.datasets_size(), 1);

  // The same bytes again are the same dataset; others are refused.
  v1::UploadDatasetRequest::Header header;
  header.set_dataset_id("text");
  header.set_size_bytes(1234);
  ExpectOk(TryUpload(header, bytes, &got));
  header.set_size_bytes(1);
  ExpectError(TryUpload(header, "y", &got), StatusCode::ALREADY_EXISTS, "text");

  v1::DeleteDatasetRequest remove;
  remove.set_name("datasets/text");
  google::protobuf::Empty empty;
  ExpectOk(Call(*datasets, &Stub::DeleteDataset, remove, &empty));
  ExpectError(Get("datasets/text", &got), StatusCode::NOT_FOUND, "text");
}

TEST_F(DatasetsTest, BadUploadsAreRefusedAndLeaveNothing) {
  v1::UploadDatasetRequest::Header header;
  header.set_dataset_id("text");
  header.set_size_bytes(3);
  v1::Dataset dataset;
  ExpectError(TryUpload(header, "ab", &dataset), StatusCode::INVALID_ARGUMENT,
              "ended after 2 of 3");
  ExpectError(TryUpload(header, "abcd", &dataset), StatusCode::INVALID_ARGUMENT,
              "more bytes");
  header.set_sha256(std::string(64, '0'));
  ExpectError(TryUpload(header, "abc", &dataset), StatusCode::DATA_LOSS,
              "sha256");
  header.clear_sha256();
  header.set_dataset_id("../etc");
  ExpectError(TryUpload(header, "abc", &dataset), StatusCode::INVALID_ARGUMENT,
              "id");
  EXPECT_TRUE(FilesOnDisk().empty());
}

TEST_F(DatasetsTest, AClientThatVanishesInTheMiddleLeavesNothing) {
  for (int i = 0; i < 5; ++i) {
    grpc::ClientContext context;
    v1::Dataset dataset;
    auto writer = datasets->UploadDataset(&context, &dataset);
    v1::UploadDatasetRequest message;
    message.mutable_header()->set_dataset_id("text");
    message.mutable_header()->set_size_bytes(1000);
    ASSERT_TRUE(writer->Write(message));
    message.set_chunk(std::string(500, 'x'));
    ASSERT_TRUE(writer->Write(message));
    context.TryCancel();
    EXPECT_EQ(writer->Finish().error_code(), StatusCode::CANCELLED);
  }
  // The server notices soon after.
  WaitUntil("nothing is left", [this] { return FilesOnDisk().empty(); });
  v1::Dataset dataset;
  ExpectError(Get("datasets/text", &dataset), StatusCode::NOT_FOUND, "text");
}

TEST_F(DatasetsTest, BadNamesAndPages) {
  v1::Dataset dataset;
  ExpectError(Get("text", &dataset), StatusCode::INVALID_ARGUMENT,
              "datasets/ID");
  v1::ListDatasetsRequest list;
  list.set_page_size(-1);
  v1::ListDatasetsResponse page;
  EXPECT_EQ(Call(*datasets, &Stub::ListDatasets, list, &page).error_code(),
            StatusCode::INVALID_ARGUMENT);
}

TEST_F(DatasetsTest, DatasetsSurviveARestart) {
  const v1::Dataset before = Upload("text", "abc");
  Start();
  v1::Dataset after;
  ExpectOk(Get("datasets/text", &after));
  EXPECT_EQ(after.SerializeAsString(), before.SerializeAsString());
}

TEST_F(DatasetsTest, ReadsTheBatchesOfARun) {
  Upload("text", "abcdeabcdeabcde");  // 2 streams of 7 steps: 3 + 3 + 1
  grpc::Status status;
  const auto batches = ReadBatches(Spec(), &status);
  ExpectOk(status);
  ASSERT_EQ(batches.size(), 6u);
  EXPECT_EQ(batches[0].batch().cu_seqlens_size(), 3);
  EXPECT_EQ(batches[0].batch().tokens_size(), 6);
  EXPECT_EQ(batches[0].targets().classes_size(), 6);
  EXPECT_FALSE(batches[0].continue_streams());
  EXPECT_TRUE(batches[1].continue_streams());
  EXPECT_EQ(batches[2].batch().tokens_size(), 2);
  EXPECT_EQ(batches[3].epoch(), 1);
}

TEST_F(DatasetsTest, ReadBatchesNeedsDataAndAnEnd) {
  Upload("text", "abcdeabcdeabcde");
  grpc::Status status;
  v1::TrainSpec spec = Spec();
  spec.clear_max_epochs();
  spec.set_max_seconds(1);
  ReadBatches(spec, &status);
  ExpectError(status, StatusCode::INVALID_ARGUMENT, "max_");
  spec = Spec();
  spec.mutable_data()->set_dataset("datasets/none");
  ReadBatches(spec, &status);
  ExpectError(status, StatusCode::NOT_FOUND, "none");
}

TEST_F(DatasetsTest, PathsOutsideTheRootAreRefused) {
  std::ofstream(directory + "/secret") << "abcdeabcdeabcde";
  std::ofstream(directory + "/root/text") << "abcdeabcdeabcde";
  std::filesystem::create_symlink("../secret", directory + "/root/link");
  grpc::Status status;
  v1::TrainSpec spec = Spec();
  for (const std::string& path :
       {std::string("../secret"), directory + "/secret", std::string("link"),
        std::string("a/../../secret"), std::string(".")}) {
    spec.mutable_data()->set_server_path(path);
    ReadBatches(spec, &status);
    ExpectError(status, StatusCode::INVALID_ARGUMENT, "");
  }
  spec.mutable_data()->set_local_file("text");
  ReadBatches(spec, &status);
  ExpectError(status, StatusCode::INVALID_ARGUMENT, "local_file");
  spec.mutable_data()->set_server_path("text");
  EXPECT_EQ(ReadBatches(spec, &status).size(), 6u);

  config.clear_data_root();
  Start();
  ReadBatches(spec, &status);
  ExpectError(status, StatusCode::PERMISSION_DENIED, "");
}

TEST_F(DatasetsTest, AReaderThatGoesAwayIsForgotten) {
  Upload("text", std::string(10000, 'a') + "bcde");
  v1::TrainSpec spec = Spec();
  spec.set_max_epochs(1000);
  for (int i = 0; i < 10; ++i) {
    grpc::ClientContext context;
    v1::ReadBatchesRequest request;
    *request.mutable_spec() = spec;
    auto reader = datasets->ReadBatches(&context, request);
    v1::ReadBatchesResponse batch;
    EXPECT_TRUE(reader->Read(&batch));
    context.TryCancel();
    reader->Finish();
  }
  Stop();  // waits for nothing
}

}  // namespace
}  // namespace recurve::server
