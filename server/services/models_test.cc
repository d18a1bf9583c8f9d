#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "google/protobuf/unknown_field_set.h"
#include "server/services/service_test_util.h"

namespace recurve::server {
namespace {

using grpc::StatusCode;
using Stub = v1::Models::Stub;

class ModelsTest : public ServiceTest {
 protected:
  grpc::Status Create(const v1::CreateModelRequest& request, v1::Model* model) {
    return Call(*models, &Stub::CreateModel, request, model);
  }
  grpc::Status Get(const std::string& name, v1::Model* model) {
    v1::GetModelRequest request;
    request.set_name(name);
    return Call(*models, &Stub::GetModel, request, model);
  }

  std::map<std::string, std::string> Export(const std::string& name,
                                            StatusCode code = StatusCode::OK) {
    v1::ExportModelRequest request;
    request.set_name(name);
    grpc::ClientContext context;
    auto reader = models->ExportModel(&context, request);
    std::map<std::string, std::string> files;
    v1::ExportModelResponse message;
    std::string current;
    while (reader->Read(&message)) {
      if (!message.file_name().empty()) current = message.file_name();
      files[current] += message.chunk();
    }
    EXPECT_EQ(reader->Finish().error_code(), code);
    return files;
  }

  grpc::Status Import(v1::ImportModelRequest::Header header,
                      const std::string& bytes, v1::ModelVersion* version) {
    if (header.size_bytes() == 0) header.set_size_bytes(bytes.size());
    grpc::ClientContext context;
    auto writer = models->ImportModel(&context, version);
    v1::ImportModelRequest message;
    *message.mutable_header() = header;
    writer->Write(message);
    message.set_chunk(bytes);
    writer->Write(message);
    writer->WritesDone();
    return writer->Finish();
  }

  static v1::CreateModelRequest CreateRequest(const std::string& id) {
    v1::CreateModelRequest request;
    request.set_model_id(id);
    *request.mutable_config() = TokenConfig();
    return request;
  }
};

TEST_F(ModelsTest, CreatesDescribesListsAndDeletes) {
  const v1::ModelVersion version = CreateModel("lm", TokenConfig());
  EXPECT_EQ(version.name(), "models/lm/versions/1");
  EXPECT_EQ(version.source(), "created");
  EXPECT_EQ(version.state_size(), 12);
  EXPECT_GT(version.parameter_count(), 0);
  EXPECT_EQ(version.sha256().size(), 64u);
  CreateModel("a", TokenConfig());

  v1::ListModelsRequest list;
  list.set_page_size(1);
  v1::ListModelsResponse page;
  ExpectOk(Call(*models, &Stub::ListModels, list, &page));
  ASSERT_EQ(page.models_size(), 1);
  EXPECT_EQ(page.models(0).name(), "models/a");
  list.set_page_token(page.next_page_token());
  ExpectOk(Call(*models, &Stub::ListModels, list, &page));
  ASSERT_EQ(page.models_size(), 1);
  EXPECT_EQ(page.models(0).name(), "models/lm");
  EXPECT_EQ(page.next_page_token(), "");

  v1::DeleteModelRequest remove;
  remove.set_name("models/lm");
  google::protobuf::Empty empty;
  ExpectOk(Call(*models, &Stub::DeleteModel, remove, &empty));
  v1::Model model;
  ExpectError(Get("models/lm", &model), StatusCode::NOT_FOUND, "models/lm");
}

TEST_F(ModelsTest, TheSameSeedGivesTheSameWeights) {
  EXPECT_EQ(CreateModel("a", TokenConfig()).sha256(),
            CreateModel("b", TokenConfig()).sha256());
}

TEST_F(ModelsTest, BadRequestsSayWhatIsWrong) {
  v1::Model model;
  ExpectError(Create(CreateRequest("Not-An-Id"), &model),
              StatusCode::INVALID_ARGUMENT, "model_id");
  v1::CreateModelRequest impossible = CreateRequest("lm");
  impossible.mutable_config()
      ->mutable_blocks(0)
      ->mutable_sru()
      ->set_hidden_size(0);
  ExpectError(Create(impossible, &model), StatusCode::INVALID_ARGUMENT,
              "hidden_size");
  v1::CreateModelRequest newer = CreateRequest("lm");
  auto& output = *newer.mutable_config()->mutable_output();
  output.GetReflection()->MutableUnknownFields(&output)->AddVarint(1000, 1);
  ExpectError(Create(newer, &model), StatusCode::INVALID_ARGUMENT,
              "output: field number 1000");
  v1::CreateModelRequest vocabulary = CreateRequest("lm");
  vocabulary.add_vocabulary("a");
  ExpectError(Create(vocabulary, &model), StatusCode::INVALID_ARGUMENT,
              "vocabulary");
  ExpectError(Get("lm", &model), StatusCode::INVALID_ARGUMENT, "models/ID");
  ExpectError(Get("models/lm", &model), StatusCode::NOT_FOUND, "models/lm");
  CreateModel("lm", TokenConfig());
  ExpectError(Create(CreateRequest("lm"), &model), StatusCode::ALREADY_EXISTS,
              "models/lm");
  v1::ListModelsRequest list;
  list.set_page_size(-1);
  v1::ListModelsResponse page;
  ExpectError(Call(*models, &Stub::ListModels, list, &page),
              StatusCode::INVALID_ARGUMENT, "page_size");
}

TEST_F(ModelsTest, ModelsBeyondTheLimitAreRefused) {
  config.set_max_parameters(100);
  Start();
  v1::Model model;
  ExpectError(Create(CreateRequest("lm"), &model),
              StatusCode::RESOURCE_EXHAUSTED, "the limit is 100");
}

TEST_F(ModelsTest, ARepeatedCreateReturnsTheSameModel) {
  v1::CreateModelRequest request = CreateRequest("lm");
  request.set_request_id("r");
  v1::Model model;
  ExpectOk(Create(request, &model));
  ExpectOk(Create(request, &model));
  EXPECT_EQ(model.version_count(), 1);
}

TEST_F(ModelsTest, AnExportComesBackByImport) {
  v1::CreateModelRequest request = CreateRequest("lm");
  for (const char* token : {"a", "b", "c", "d", "e"}) {
    request.add_vocabulary(token);
  }
  v1::Model model;
  ExpectOk(Create(request, &model));
  const auto files = Export("models/lm");
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files.at("vocabulary.json"), R"(["a","b","c","d","e"])");
  EXPECT_NE(files.at("config.textproto").find("sru"), std::string::npos);

  v1::ImportModelRequest::Header header;
  header.set_model_id("copy");
  *header.mutable_config() = TokenConfig();
  *header.mutable_vocabulary() = request.vocabulary();
  header.set_request_id("r");
  v1::ModelVersion version;
  ExpectOk(Import(header, files.at("model.safetensors"), &version));
  EXPECT_EQ(version.name(), "models/copy/versions/1");
  EXPECT_EQ(version.source(), "imported");
  EXPECT_EQ(version.vocabulary_size(), 5);
  EXPECT_EQ(Export("models/copy"), files);
  // Once more, and then without the request id: the next version.
  ExpectOk(Import(header, files.at("model.safetensors"), &version));
  EXPECT_EQ(version.name(), "models/copy/versions/1");
  header.clear_request_id();
  ExpectOk(Import(header, files.at("model.safetensors"), &version));
  EXPECT_EQ(version.name(), "models/copy/versions/2");

  v1::ListModelVersionsRequest list;
  list.set_parent("models/copy");
  list.set_page_size(1);
  v1::ListModelVersionsResponse page;
  ExpectOk(Call(*models, &Stub::ListModelVersions, list, &page));
  ASSERT_EQ(page.versions_size(), 1);
  EXPECT_EQ(page.versions(0).vocabulary_size(), 0);
  list.set_page_token(page.next_page_token());
  ExpectOk(Call(*models, &Stub::ListModelVersions, list, &page));
  EXPECT_EQ(page.versions(0).name(), "models/copy/versions/2");
  EXPECT_EQ(page.next_page_token(), "");
}

TEST_F(ModelsTest, ImportsThatCannotBeAreRefusedAndLeaveNothing) {
  CreateModel("lm", TokenConfig());
  const std::string weights = Export("models/lm").at("model.safetensors");
  const size_t files = FilesOnDisk().size();
  v1::ImportModelRequest::Header header;
  header.set_model_id("copy");
  *header.mutable_config() = TokenConfig();
  v1::ModelVersion version;

  for (const std::string& bytes :
       {weights.substr(0, weights.size() - 1), weights.substr(0, 5),
        std::string(100, '\xff'), std::string("{}")}) {
    const grpc::Status status = Import(header, bytes, &version);
    EXPECT_TRUE(status.error_code() == StatusCode::INVALID_ARGUMENT ||
                status.error_code() == StatusCode::DATA_LOSS)
        << status.error_message();
  }
  v1::ImportModelRequest::Header other = header;
  other.mutable_config()->mutable_blocks(0)->mutable_sru()->set_hidden_size(7);
  ExpectError(Import(other, weights, &version), StatusCode::INVALID_ARGUMENT,
              "rnn");
  other = header;
  other.set_size_bytes(weights.size() + 1);
  ExpectError(Import(other, weights, &version), StatusCode::INVALID_ARGUMENT,
              "ended after");
  other.set_size_bytes(10);
  ExpectError(Import(other, weights, &version), StatusCode::INVALID_ARGUMENT,
              "more bytes");
  other.set_size_bytes(-1);
  ExpectError(Import(other, weights, &version), StatusCode::INVALID_ARGUMENT,
              "size_bytes");
  other.set_size_bytes(int64_t{1} << 50);
  ExpectError(Import(other, weights, &version), StatusCode::RESOURCE_EXHAUSTED,
              "limit");
  other = header;
  other.set_model_id("");
  ExpectError(Import(other, weights, &version), StatusCode::INVALID_ARGUMENT,
              "model_id");
  v1::Model model;
  ExpectError(Get("models/copy", &model), StatusCode::NOT_FOUND, "copy");
  EXPECT_EQ(FilesOnDisk().size(), files);
}

TEST_F(ModelsTest, AnUploadThatBeginsWithBytesIsRefused) {
  grpc::ClientContext context;
  v1::ModelVersion version;
  auto writer = models->ImportModel(&context, &version);
  v1::ImportModelRequest message;
  message.set_chunk("bytes");
  writer->Write(message);
  writer->WritesDone();
  ExpectError(writer->Finish(), StatusCode::INVALID_ARGUMENT, "header");
}

TEST_F(ModelsTest, ExportOfWhatIsNotThere) {
  Export("models/lm", StatusCode::NOT_FOUND);
  Export("lm", StatusCode::INVALID_ARGUMENT);
}

TEST_F(ModelsTest, ModelsSurviveARestart) {
  const v1::ModelVersion before = CreateModel("lm", TokenConfig());
  const auto files = Export("models/lm");
  Start();
  v1::GetModelVersionRequest request;
  request.set_name("models/lm");
  v1::ModelVersion after;
  ExpectOk(Call(*models, &Stub::GetModelVersion, request, &after));
  EXPECT_EQ(after.SerializeAsString(), before.SerializeAsString());
  EXPECT_EQ(Export("models/lm"), files);
}

// --- Aliases, one version at a time ---

class ModelVersionsTest : public ModelsTest {
 protected:
  // Versions 1 and 2 of `lm`.
  ModelVersionsTest() {
    CreateModel("lm", TokenConfig());
    v1::ImportModelRequest::Header header;
    header.set_model_id("lm");
    *header.mutable_config() = TokenConfig();
    v1::ModelVersion version;
    ExpectOk(
        Import(header, Export("models/lm").at("model.safetensors"), &version));
    EXPECT_EQ(version.name(), Version(2));
  }
  static std::string Version(int number) {
    return "models/lm/versions/" + std::to_string(number);
  }
  grpc::Status SetAlias(const std::string& alias, const std::string& version,
                        v1::Model* model) {
    v1::SetModelAliasRequest request;
    request.set_name("models/lm/aliases/" + alias);
    request.set_model_version(version);
    return Call(*models, &Stub::SetModelAlias, request, model);
  }
  template <typename Request, typename Response>
  grpc::Status CallNamed(grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                      const Request&,
                                                      Response*),
                         const std::string& name, Response* response) {
    Request request;
    request.set_name(name);
    return Call(*models, method, request, response);
  }
  v1::ModelVersion::State StateOf(const std::string& name) {
    v1::ModelVersion version;
    ExpectOk(CallNamed(&Stub::GetModelVersion, name, &version));
    return version.state();
  }
  grpc::Status Predict(const std::string& name, v1::PredictResponse* response) {
    v1::PredictRequest request;
    request.set_model(name);
    *request.mutable_batch() = Tokens({{1, 2}});
    return Call(*inference, &v1::Inference::Stub::Predict, request, response);
  }
};

TEST_F(ModelVersionsTest, AnAliasIsAnotherNameOfAVersion) {
  v1::Model model;
  ExpectOk(SetAlias("stable", Version(1), &model));
  EXPECT_EQ(model.aliases().at("stable"), Version(1));
  v1::PredictResponse response;
  ExpectOk(Predict("models/lm/aliases/stable", &response));
  EXPECT_EQ(response.model_version(), Version(1));
  ExpectOk(SetAlias("stable", Version(2), &model));
  Start();
  ExpectOk(Predict("models/lm/aliases/stable", &response));
  EXPECT_EQ(response.model_version(), Version(2));
  ExpectOk(Get("models/lm", &model));
  EXPECT_EQ(model.aliases_size(), 1);

  ExpectError(SetAlias("stable", Version(3), &model), StatusCode::NOT_FOUND,
              Version(3));
  ExpectError(SetAlias("A", Version(1), &model), StatusCode::INVALID_ARGUMENT,
              "alias");
  google::protobuf::Empty empty;
  ExpectOk(
      CallNamed(&Stub::DeleteModelAlias, "models/lm/aliases/stable", &empty));
  ExpectError(Predict("models/lm/aliases/stable", &response),
              StatusCode::NOT_FOUND, "models/lm/aliases/stable");
}

TEST_F(ModelVersionsTest, LoadedUnloadedAndTakenBack) {
  EXPECT_EQ(StateOf(Version(1)), v1::ModelVersion::ON_DEMAND);
  v1::ModelVersion version;
  ExpectOk(CallNamed(&Stub::LoadModelVersion, Version(1), &version));
  EXPECT_EQ(version.state(), v1::ModelVersion::LOADED);
  EXPECT_EQ(version.name(), Version(1));
  v1::PredictResponse response;
  ExpectOk(Predict(Version(1), &response));

  ExpectOk(CallNamed(&Stub::UnloadModelVersion, Version(1), &version));
  EXPECT_TRUE(version.state() == v1::ModelVersion::DRAINING ||
              version.state() == v1::ModelVersion::UNLOADED);
  while (StateOf(Version(1)) != v1::ModelVersion::UNLOADED) {
    std::this_thread::yield();  // the device lets go of the last request
  }
  ExpectError(Predict(Version(1), &response), StatusCode::FAILED_PRECONDITION,
              "unloaded");
  ExpectOk(Predict("models/lm", &response));
  EXPECT_EQ(response.model_version(), Version(2));
  v1::ListModelVersionsRequest list;
  list.set_parent("models/lm");
  v1::ListModelVersionsResponse page;
  ExpectOk(Call(*models, &Stub::ListModelVersions, list, &page));
  EXPECT_EQ(page.versions(0).state(), v1::ModelVersion::UNLOADED);
  EXPECT_EQ(page.versions(1).state(), v1::ModelVersion::ON_DEMAND);

  ExpectOk(CallNamed(&Stub::LoadModelVersion, Version(1), &version));
  ExpectOk(Predict(Version(1), &response));
  ExpectError(CallNamed(&Stub::LoadModelVersion, Version(7), &version),
              StatusCode::NOT_FOUND, Version(7));
  // After a restart all are on demand.
  ExpectOk(CallNamed(&Stub::UnloadModelVersion, Version(1), &version));
  Start();
  EXPECT_EQ(StateOf(Version(1)), v1::ModelVersion::ON_DEMAND);
}

class PrecisionTest : public ModelVersionsTest {
 protected:
  static v1::LoadModelVersionRequest At(v1::Precision precision) {
    v1::LoadModelVersionRequest request;
    request.set_name(Version(1));
    request.set_precision(precision);
    return request;
  }
  grpc::Status TryLoad(const v1::LoadModelVersionRequest& request,
                       v1::ModelVersion* version) {
    return Call(*models, &Stub::LoadModelVersion, request, version);
  }
  v1::ModelVersion Load(const v1::LoadModelVersionRequest& request) {
    v1::ModelVersion version;
    ExpectOk(TryLoad(request, &version));
    return version;
  }
  v1::PredictResponse Ok(const v1::PredictRequest& request) {
    v1::PredictResponse response;
    ExpectOk(
        Call(*inference, &v1::Inference::Stub::Predict, request, &response));
    return response;
  }
  std::string Logits() {
    v1::PredictResponse response;
    ExpectOk(Predict(Version(1), &response));
    return response.logits();
  }
  // Logits of a session that is begun, or goes on, with these tokens.
  std::string InSession(bool start, const std::vector<int32_t>& tokens) {
    v1::PredictRequest request;
    request.set_model(Version(1));
    *request.mutable_batch() = Tokens({tokens});
    request.mutable_session()->set_name("sessions/s");
    request.mutable_session()->set_start(start);
    return Ok(request).logits();
  }
};

TEST_F(PrecisionTest, AVersionIsServedAtThePrecisionItIsLoadedAt) {
  const std::string exact = Logits();
  const v1::ModelVersion version = Load(At(v1::INT8));
  EXPECT_EQ(version.precision(), v1::INT8);
  EXPECT_EQ(version.state(), v1::ModelVersion::LOADED);
  EXPECT_FALSE(version.has_accuracy());
  const std::string int8 = Logits();
  EXPECT_NE(int8, exact);
  // Loaded without one it stays as it is; at float32 it is what it was.
  EXPECT_EQ(Load(At(v1::PRECISION_UNSPECIFIED)).precision(), v1::INT8);
  EXPECT_EQ(Logits(), int8);
  EXPECT_EQ(Load(At(v1::BFLOAT16)).precision(), v1::BFLOAT16);
  EXPECT_NE(Logits(), int8);
  EXPECT_EQ(Load(At(v1::FLOAT32)).precision(), v1::FLOAT32);
  EXPECT_EQ(Logits(), exact);
  v1::ModelVersion refused;
  ExpectError(TryLoad(At(static_cast<v1::Precision>(9)), &refused),
              StatusCode::INVALID_ARGUMENT, "precision: 9");
}

TEST_F(PrecisionTest, ASessionGoesOnAtThePrecisionItBeganWith) {
  InSession(true, {1, 2});
  const std::string exact = InSession(false, {3});
  InSession(true, {1, 2});
  Load(At(v1::INT8));
  EXPECT_EQ(InSession(false, {3}), exact);
  InSession(true, {1, 2});
  EXPECT_NE(InSession(false, {3}), exact);
}

TEST_F(PrecisionTest, WhatItChangesOfTheLossIsMeasured) {
  v1::CreateModelRequest create;
  create.set_model_id("text");
  *create.mutable_config() = TokenConfig();
  for (const char* token : {"a", "b", "c", "d", "e"}) {
    create.add_vocabulary(token);
  }
  v1::Model model;
  ExpectOk(Call(*models, &Stub::CreateModel, create, &model));
  Upload("letters", "abcdeabcaedcba");

  v1::LoadModelVersionRequest request = At(v1::INT8);
  request.set_name("models/text/versions/1");
  request.mutable_accuracy_source()->set_dataset("datasets/letters");
  const v1::PrecisionAccuracy accuracy = Load(request).accuracy();
  EXPECT_EQ(accuracy.weight(), 13);
  EXPECT_NE(accuracy.loss(), accuracy.float32_loss());
  EXPECT_NEAR(accuracy.loss(), accuracy.float32_loss(), 0.05);
  EXPECT_NEAR(accuracy.relative_difference(),
              accuracy.loss() / accuracy.float32_loss() - 1, 1e-12);
  v1::EvaluateRequest evaluate;
  evaluate.set_model(request.name());
  *evaluate.mutable_source() = request.accuracy_source();
  v1::EvaluateResponse served;
  ExpectOk(Call(*inference, &v1::Inference::Stub::Evaluate, evaluate, &served));
  EXPECT_NEAR(served.loss(), accuracy.loss(), 1e-9);

  // Where the data are no good nothing is loaded.
  request.set_precision(v1::BFLOAT16);
  request.mutable_accuracy_source()->set_dataset("datasets/none");
  v1::ModelVersion version;
  ExpectError(TryLoad(request, &version), StatusCode::NOT_FOUND, "none");
  ExpectOk(CallNamed(&Stub::GetModelVersion, request.name(), &version));
  EXPECT_EQ(version.precision(), v1::INT8);
  request.clear_accuracy_source();
  request.mutable_accuracy_format()->mutable_text();
  ExpectError(TryLoad(request, &version), StatusCode::INVALID_ARGUMENT,
              "accuracy_format");
}

TEST_F(PrecisionTest, TheServersDefaultIsOfVersionsThatNobodyLoaded) {
  Stop();
  config.set_serving_precision("bf16");
  Start();
  v1::ModelVersion version;
  ExpectOk(CallNamed(&Stub::GetModelVersion, Version(1), &version));
  EXPECT_EQ(version.precision(), v1::BFLOAT16);
  const std::string bf16 = Logits();
  Load(At(v1::FLOAT32));
  EXPECT_NE(Logits(), bf16);
}

TEST_F(ModelVersionsTest, AVersionThatNothingPointsAtIsDeleted) {
  v1::Model model;
  google::protobuf::Empty empty;
  ExpectOk(SetAlias("stable", Version(2), &model));
  ExpectError(CallNamed(&Stub::DeleteModelVersion, Version(2), &empty),
              StatusCode::FAILED_PRECONDITION, "stable");
  ExpectOk(SetAlias("stable", Version(1), &model));
  ExpectOk(CallNamed(&Stub::DeleteModelVersion, Version(2), &empty));
  v1::PredictResponse response;
  ExpectError(Predict(Version(2), &response), StatusCode::NOT_FOUND,
              Version(2));
  ExpectOk(Predict("models/lm", &response));
  EXPECT_EQ(response.model_version(), Version(1));
  ExpectError(CallNamed(&Stub::DeleteModelVersion, Version(1), &empty),
              StatusCode::FAILED_PRECONDITION, "");
}

}  // namespace
}  // namespace recurve::server
