#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/inference/inference.grpc.pb.h"
#include "server/kserve/decode_test_util.h"
#include "server/kserve/shared_memory_test_util.h"
#include "server/services/service_test_util.h"

namespace recurve::server::kserve {
namespace {

using grpc::StatusCode;
using ::inference::ModelInferRequest;
using ::inference::ModelInferResponse;
using ::inference::ModelStreamInferResponse;
using Floats = std::vector<float>;
using Stub = ::inference::GRPCInferenceService::Stub;

Floats FloatsOf(const std::string& bytes) {
  Floats floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

class KServeTest : public ServiceTest {
 protected:
  KServeTest() : stub(::inference::GRPCInferenceService::NewStub(channel)) {}

  static ModelInferRequest TokenRequest() {
    ModelInferRequest request;
    request.set_model_name("lm");
    request.set_id("r");
    AddInput(request, "tokens", "INT32", {2, 3},
             RawBytes<int32_t>({0, 1, 2, 4, 0, 0}));
    AddInput(request, "lengths", "INT32", {2}, RawBytes<int32_t>({3, 1}));
    return request;
  }
  grpc::Status Infer(const ModelInferRequest& request,
                     ModelInferResponse* response) {
    return Call(*stub, &Stub::ModelInfer, request, response);
  }
  // Of the same sequences, by the server's own protocol.
  v1::PredictResponse Predicted(const v1::SequenceBatch& batch) {
    v1::PredictRequest request;
    request.set_model("models/lm");
    *request.mutable_batch() = batch;
    request.set_want_logits(true);
    request.set_want_class(true);
    v1::PredictResponse response;
    ExpectOk(
        Call(*inference, &v1::Inference::Stub::Predict, request, &response));
    return response;
  }

  std::unique_ptr<Stub> stub;
};

// --- What there is ---

TEST_F(KServeTest, LivesAndIsReady) {
  ::inference::ServerLiveResponse live;
  ExpectOk(
      Call(*stub, &Stub::ServerLive, ::inference::ServerLiveRequest(), &live));
  EXPECT_TRUE(live.live());
  ::inference::ServerReadyResponse ready;
  ExpectOk(Call(*stub, &Stub::ServerReady, ::inference::ServerReadyRequest(),
                &ready));
  EXPECT_TRUE(ready.ready());
  ::inference::ServerMetadataResponse metadata;
  ExpectOk(Call(*stub, &Stub::ServerMetadata,
                ::inference::ServerMetadataRequest(), &metadata));
  EXPECT_EQ(metadata.name(), "recurve");
  EXPECT_FALSE(metadata.version().empty());
}

TEST_F(KServeTest, ModelsAreReadyWhenTheyAreThere) {
  CreateModel("lm", TokenConfig());
  const auto ready = [this](const std::string& name,
                            const std::string& version) {
    ::inference::ModelReadyRequest request;
    request.set_name(name);
    request.set_version(version);
    ::inference::ModelReadyResponse response;
    ExpectOk(Call(*stub, &Stub::ModelReady, request, &response));
    return response.ready();
  };
  EXPECT_TRUE(ready("lm", ""));
  EXPECT_TRUE(ready("lm", "1"));
  EXPECT_FALSE(ready("lm", "2"));
  EXPECT_FALSE(ready("absent", ""));
  EXPECT_FALSE(ready("No Such Name", ""));
}

TEST_F(KServeTest, MetadataHasTheTensors) {
  CreateModel("lm", TokenConfig());
  ::inference::ModelMetadataRequest request;
  request.set_name("lm");
  ::inference::ModelMetadataResponse metadata;
  ExpectOk(Call(*stub, &Stub::ModelMetadata, request, &metadata));
  EXPECT_EQ(metadata.ShortDebugString(),
            "name: \"lm\" versions: \"1\" platform: \"recurve\" "
            "inputs { name: \"tokens\" datatype: \"INT32\" shape: -1 shape: -1 "
            "} inputs { name: \"lengths\" datatype: \"INT32\" shape: -1 shape: "
            "1 } outputs { name: \"logits\" datatype: \"FP32\" shape: -1 "
            "shape: -1 shape: 5 } outputs { name: \"probabilities\" datatype: "
            "\"FP32\" shape: -1 shape: -1 shape: 5 } outputs { name: "
            "\"classes\" datatype: \"INT32\" shape: -1 shape: -1 }");
  request.set_version("2");
  ExpectError(Call(*stub, &Stub::ModelMetadata, request, &metadata),
              StatusCode::NOT_FOUND, "models/lm");
}

TEST_F(KServeTest, TheConfigurationSaysWhetherStateIsKept) {
  config.set_max_batch_size(64);
  config.set_priority_levels(5);
  Start();
  stub = ::inference::GRPCInferenceService::NewStub(channel);
  CreateModel("lm", TokenConfig());
  v1::ModelConfig both_ways = TokenConfig();
  both_ways.mutable_blocks(0)->mutable_sru()->set_bidirectional(true);
  CreateModel("tagger", both_ways);

  const auto config_of = [this](const std::string& name, bool plain) {
    grpc::ClientContext context;
    SetDeadline(context);
    if (plain) context.AddMetadata("recurve-scheduling", "dynamic");
    ::inference::ModelConfigRequest request;
    request.set_name(name);
    ::inference::ModelConfigResponse response;
    ExpectOk(stub->ModelConfig(&context, request, &response));
    return response.config();
  };
  EXPECT_TRUE(config_of("lm", false).has_sequence_batching());
  EXPECT_TRUE(config_of("lm", true).has_dynamic_batching());
  const ::inference::ModelConfig config = config_of("tagger", false);
  EXPECT_EQ(config.dynamic_batching().priority_levels(), 5u);
  EXPECT_EQ(config.max_batch_size(), 64);
  ASSERT_EQ(config.input_size(), 2);
  EXPECT_EQ(config.input(0).data_type(), ::inference::TYPE_INT32);
  EXPECT_EQ(config.input(0).dims_size(), 1);
  EXPECT_FALSE(config.input(0).optional());
  EXPECT_TRUE(config.input(1).optional());
  EXPECT_EQ(config.output_size(), 3);
}

TEST_F(KServeTest, TheIndexHasEveryVersion) {
  CreateModel("lm", TokenConfig());
  CreateModel("a", FeatureConfig());
  ::inference::RepositoryIndexResponse index;
  ExpectOk(Call(*stub, &Stub::RepositoryIndex,
                ::inference::RepositoryIndexRequest(), &index));
  EXPECT_EQ(index.ShortDebugString(),
            "models { name: \"a\" version: \"1\" state: \"READY\" } "
            "models { name: \"lm\" version: \"1\" state: \"READY\" }");
}

TEST_F(KServeTest, AModelIsUnloadedAndLoadedAgain) {
  CreateModel("lm", TokenConfig());
  ::inference::RepositoryModelUnloadRequest unload;
  ::inference::RepositoryModelUnloadResponse unloaded;
  unload.set_model_name("lm");
  ExpectOk(Call(*stub, &Stub::RepositoryModelUnload, unload, &unloaded));
  ModelInferResponse response;
  ExpectError(Infer(TokenRequest(), &response), StatusCode::FAILED_PRECONDITION,
              "models/lm");
  ::inference::RepositoryIndexRequest list;
  ::inference::RepositoryIndexResponse index;
  ExpectOk(Call(*stub, &Stub::RepositoryIndex, list, &index));
  ASSERT_EQ(index.models_size(), 1);
  EXPECT_NE(index.models(0).state(), "READY");
  EXPECT_FALSE(index.models(0).reason().empty());
  list.set_ready(true);
  ExpectOk(Call(*stub, &Stub::RepositoryIndex, list, &index));
  EXPECT_EQ(index.models_size(), 0);

  ::inference::RepositoryModelLoadRequest load;
  ::inference::RepositoryModelLoadResponse loaded;
  load.set_model_name("lm");
  ExpectOk(Call(*stub, &Stub::RepositoryModelLoad, load, &loaded));
  ExpectOk(Infer(TokenRequest(), &response));
  ExpectOk(Call(*stub, &Stub::RepositoryIndex, list, &index));
  EXPECT_EQ(index.models_size(), 1);

  (*load.mutable_parameters())["config"].set_string_param("{}");
  ExpectError(Call(*stub, &Stub::RepositoryModelLoad, load, &loaded),
              StatusCode::UNIMPLEMENTED, "config");
  load.clear_parameters();
  load.set_model_name("absent");
  ExpectError(Call(*stub, &Stub::RepositoryModelLoad, load, &loaded),
              StatusCode::NOT_FOUND, "absent");
}

// --- Inference ---

TEST_F(KServeTest, InfersWhatPredictPredicts) {
  CreateModel("lm", TokenConfig());
  ModelInferResponse response;
  ExpectOk(Infer(TokenRequest(), &response));
  EXPECT_EQ(response.model_name(), "lm");
  EXPECT_EQ(response.model_version(), "1");
  EXPECT_EQ(response.id(), "r");
  ASSERT_EQ(response.outputs_size(), 3);
  const Floats logits = FloatsOf(response.raw_output_contents(0));
  ASSERT_EQ(logits.size(), 2u * 3 * 5);
  const v1::PredictResponse predicted = Predicted(Tokens({{0, 1, 2}, {4}}));
  const Floats expected = FloatsOf(predicted.logits());
  EXPECT_EQ(Floats(logits.begin(), logits.begin() + 20), expected);
  EXPECT_EQ(Floats(logits.begin() + 20, logits.end()), Floats(10, 0.f));
}

TEST_F(KServeTest, VersionsAreFoundOrNot) {
  CreateModel("lm", TokenConfig());
  ModelInferRequest request = TokenRequest();
  ModelInferResponse response;
  request.set_model_version("1");
  ExpectOk(Infer(request, &response));
  v1::SetModelAliasRequest alias;
  alias.set_name("models/lm/aliases/canary");
  alias.set_model_version("models/lm/versions/1");
  v1::Model model;
  ExpectOk(Call(*models, &v1::Models::Stub::SetModelAlias, alias, &model));
  request.set_model_version("canary");
  ExpectOk(Infer(request, &response));
  EXPECT_EQ(response.model_version(), "1");
  for (const char* const version : {"2", "0", "stable", "V 1", "-1"}) {
    request.set_model_version(version);
    ExpectError(Infer(request, &response), StatusCode::NOT_FOUND, version);
  }
  request.clear_model_version();
  for (const char* const name : {"absent", "", "models/lm", "Lm"}) {
    request.set_model_name(name);
    ExpectError(Infer(request, &response), StatusCode::NOT_FOUND, name);
  }
}

TEST_F(KServeTest, ErrorsSayWhatIsWrong) {
  CreateModel("lm", TokenConfig());
  ModelInferRequest request = TokenRequest();
  *request.mutable_raw_input_contents(0) =
      RawBytes<int32_t>({0, 1, 5, 4, 0, 0});
  ModelInferResponse response;
  ExpectError(Infer(request, &response), StatusCode::INVALID_ARGUMENT, "5");
  request = TokenRequest();
  (*request.mutable_parameters())["timeout"].set_string_param("1s");
  ExpectError(Infer(request, &response), StatusCode::INVALID_ARGUMENT,
              "timeout");
}

TEST_F(KServeTest, ATimeoutIsADeadline) {
  v1::ModelConfig large = TokenConfig();
  large.mutable_blocks(0)->mutable_sru()->set_hidden_size(1024);
  CreateModel("lm", large);
  ModelInferRequest request;
  request.set_model_name("lm");
  AddInput(request, "tokens", "INT32", {1, 100000},
           RawBytes(std::vector<int32_t>(100000, 1)));
  request.add_outputs()->set_name("classes");
  (*request.mutable_parameters())["timeout"].set_int64_param(1000);
  ModelInferResponse response;
  ExpectError(Infer(request, &response), StatusCode::DEADLINE_EXCEEDED,
              "deadline");
}

// --- Sequences ---

class KServeSequenceTest : public KServeTest {
 protected:
  KServeSequenceTest() { CreateModel("lm", TokenConfig()); }

  static ModelInferRequest Request(const std::vector<int32_t>& tokens,
                                   int64_t id, bool start, bool end) {
    ModelInferRequest request;
    request.set_model_name("lm");
    AddInput(request, "tokens", "INT32",
             {1, static_cast<int64_t>(tokens.size())}, RawBytes(tokens));
    request.add_outputs()->set_name("logits");
    auto& parameters = *request.mutable_parameters();
    parameters["sequence_id"].set_int64_param(id);
    parameters["sequence_start"].set_bool_param(start);
    parameters["sequence_end"].set_bool_param(end);
    return request;
  }
  // The logits' bytes; expects success.
  std::string Step(const std::vector<int32_t>& tokens, int64_t id, bool start,
                   bool end) {
    ModelInferResponse response;
    ExpectOk(Infer(Request(tokens, id, start, end), &response));
    return response.raw_output_contents_size() == 1
               ? response.raw_output_contents(0)
               : "";
  }
  void ExpectStepError(const ModelInferRequest& request, StatusCode code,
                       const std::string& word) {
    ModelInferResponse response;
    ExpectError(Infer(request, &response), code, word);
  }
};

TEST_F(KServeSequenceTest, PiecesHaveTheBitsOfTheWhole) {
  const std::string whole = Predicted(Tokens({{0, 1, 2, 3, 4}})).logits();
  const std::string other = Predicted(Tokens({{4, 4, 4}})).logits();
  std::string pieces = Step({0, 1}, 7, true, false);
  std::string others = Step({4}, 8, true, false);
  pieces += Step({2}, 7, false, false);
  others += Step({4, 4}, 8, false, true);
  pieces += Step({3, 4}, 7, false, true);
  EXPECT_EQ(pieces, whole);
  EXPECT_EQ(others, other);
  ExpectStepError(Request({1}, 7, false, false), StatusCode::INVALID_ARGUMENT,
                  "sequence_start");
}

TEST_F(KServeSequenceTest, RequestsThatWaitInAStreamHaveTheirTurns) {
  const std::string whole =
      Predicted(Tokens({std::vector<int32_t>(40, 3)})).logits();
  grpc::ClientContext context;
  SetDeadline(context);
  const auto stream = stub->ModelStreamInfer(&context);
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(stream->Write(Request({3}, 5, i == 0, i == 39)));
  }
  stream->WritesDone();
  std::string pieces;
  ModelStreamInferResponse response;
  while (stream->Read(&response)) {
    EXPECT_EQ(response.error_message(), "");
    ASSERT_EQ(response.infer_response().raw_output_contents_size(), 1);
    pieces += response.infer_response().raw_output_contents(0);
  }
  ExpectOk(stream->Finish());
  EXPECT_EQ(pieces, whole);
}

TEST_F(KServeSequenceTest, AStartWaitsForWhatIsUnderWayAndThenReplacesIt) {
  config.set_max_batch_rows(8);
  Start();  // the model is on disk
  stub = ::inference::GRPCInferenceService::NewStub(channel);
  const std::vector<int32_t> tokens(20000, 3);
  const std::string whole = Predicted(Tokens({tokens})).logits();
  const std::string anew = Predicted(Tokens({{4, 1, 2}})).logits();
  const int64_t before = Rows();
  std::string busy;
  std::thread first([&] { busy = Step(tokens, 7, true, false); });
  WaitUntil("it is under way", [&] { return Rows() > before; });
  // Of another caller, who knows nothing of the first.
  std::string pieces = Step({4, 1}, 7, true, false);
  pieces += Step({2}, 7, false, true);
  first.join();
  EXPECT_EQ(busy, whole);
  EXPECT_EQ(pieces, anew);
  ExpectStepError(Request({1}, 7, false, false), StatusCode::INVALID_ARGUMENT,
                  "sequence_start");
}

TEST_F(KServeSequenceTest, AFailedRequestLeavesTheSequenceAsItWas) {
  const std::string whole = Predicted(Tokens({{0, 1, 2}})).logits();
  std::string pieces = Step({0, 1}, 7, true, false);
  ExpectStepError(Request({9}, 7, false, false), StatusCode::INVALID_ARGUMENT,
                  "9");
  ExpectStepError(Request({9}, 7, true, false), StatusCode::INVALID_ARGUMENT,
                  "9");
  ModelInferRequest two = Request({1}, 7, false, true);
  two.mutable_inputs(0)->set_shape(0, 2);
  *two.mutable_raw_input_contents(0) += RawBytes<int32_t>({1});
  ExpectStepError(two, StatusCode::INVALID_ARGUMENT, "batch of 1");
  pieces += Step({2}, 7, false, true);
  EXPECT_EQ(pieces, whole);
}

TEST_F(KServeSequenceTest, ASequenceStaysOnItsVersion) {
  CreateModel("other", TokenConfig());
  Step({0}, 7, true, false);
  ModelInferRequest request = Request({1}, 7, false, false);
  request.set_model_version("2");
  ExpectStepError(request, StatusCode::FAILED_PRECONDITION, "version 1");
  request.set_model_version("1");
  ModelInferResponse response;
  ExpectOk(Infer(request, &response));
  // Another model's sequences are others, whatever their ids.
  request.set_model_name("other");
  ExpectStepError(request, StatusCode::INVALID_ARGUMENT, "sequence_start");
}

TEST_F(KServeSequenceTest, BidirectionalModelsHaveNone) {
  v1::ModelConfig both_ways = TokenConfig();
  both_ways.mutable_blocks(0)->mutable_sru()->set_bidirectional(true);
  CreateModel("tagger", both_ways);
  ModelInferRequest request = Request({1}, 7, true, true);
  request.set_model_name("tagger");
  ExpectStepError(request, StatusCode::FAILED_PRECONDITION, "bidirectional");
}

// --- Statistics ---

TEST_F(KServeTest, StatisticsCountWhatWasServed) {
  CreateModel("lm", TokenConfig());
  CreateModel("unused", TokenConfig());
  ModelInferResponse response;
  ExpectOk(Infer(TokenRequest(), &response));
  ExpectOk(Infer(TokenRequest(), &response));
  ::inference::ModelStatisticsRequest request;
  ::inference::ModelStatisticsResponse statistics;
  request.set_name("lm");
  ExpectOk(Call(*stub, &Stub::ModelStatistics, request, &statistics));
  ASSERT_EQ(statistics.model_stats_size(), 1);
  const ::inference::ModelStatistics& lm = statistics.model_stats(0);
  EXPECT_EQ(lm.name(), "lm");
  EXPECT_EQ(lm.version(), "1");
  EXPECT_EQ(lm.inference_count(), 4u);  // sequences
  EXPECT_GE(lm.execution_count(), 2u);
  EXPECT_EQ(lm.inference_stats().success().count(), 2u);
  EXPECT_GT(lm.inference_stats().success().ns(), 0u);
  EXPECT_EQ(lm.inference_stats().fail().count(), 0u);
  EXPECT_GT(lm.last_inference(), 0u);
  EXPECT_GE(lm.batch_stats_size(), 1);

  request.clear_name();
  ExpectOk(Call(*stub, &Stub::ModelStatistics, request, &statistics));
  ASSERT_EQ(statistics.model_stats_size(), 2);
  EXPECT_EQ(statistics.model_stats(1).inference_count(), 0u);
  request.set_name("absent");
  ExpectError(Call(*stub, &Stub::ModelStatistics, request, &statistics),
              StatusCode::NOT_FOUND, "absent");
}

TEST_F(KServeTest, PrioritiesHaveTheServersLevels) {
  CreateModel("lm", TokenConfig());
  ModelInferRequest request = TokenRequest();
  ModelInferResponse response;
  (*request.mutable_parameters())["priority"].set_uint64_param(3);
  ExpectOk(Infer(request, &response));
  (*request.mutable_parameters())["priority"].set_uint64_param(4);
  ExpectError(Infer(request, &response), StatusCode::INVALID_ARGUMENT,
              "0 to 3");
}

// --- Streams ---

TEST_F(KServeTest, AStreamAnswersInItsOrderAndGoesOnAfterErrors) {
  CreateModel("lm", TokenConfig());
  grpc::ClientContext context;
  SetDeadline(context);
  const auto stream = stub->ModelStreamInfer(&context);
  constexpr int kRequests = 300;  // more than are read ahead
  for (int i = 0; i < kRequests; ++i) {
    ModelInferRequest request = TokenRequest();
    request.set_id(absl::StrCat(i));
    if (i % 3 == 1) request.set_model_name("absent");
    if (i % 3 == 2) {
      (*request.mutable_parameters())["triton_enable_empty_final_response"]
          .set_bool_param(true);
    }
    ASSERT_TRUE(stream->Write(request));
  }
  stream->WritesDone();
  ModelStreamInferResponse response;
  for (int i = 0; i < kRequests; ++i) {
    ASSERT_TRUE(stream->Read(&response));
    const ModelInferResponse& reply = response.infer_response();
    EXPECT_EQ(reply.id(), absl::StrCat(i));
    EXPECT_EQ(response.error_message().empty(), i % 3 != 1);
    EXPECT_EQ(reply.outputs_size(), i % 3 == 1 ? 0 : 3);
    EXPECT_EQ(reply.parameters().contains("triton_final_response"), i % 3 == 2);
  }
  EXPECT_FALSE(stream->Read(&response));
  ExpectOk(stream->Finish());
}

TEST_F(KServeTest, AnErrorEndsAStreamThatAsksForIt) {
  CreateModel("lm", TokenConfig());
  grpc::ClientContext context;
  SetDeadline(context);
  context.AddMetadata("triton_grpc_error", "true");
  const auto stream = stub->ModelStreamInfer(&context);
  ModelInferRequest request = TokenRequest();
  ASSERT_TRUE(stream->Write(request));
  request.set_model_name("absent");
  ASSERT_TRUE(stream->Write(request));
  ModelStreamInferResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.infer_response().outputs_size(), 3);
  EXPECT_FALSE(stream->Read(&response));
  ExpectError(stream->Finish(), StatusCode::NOT_FOUND, "absent");
}

TEST_F(KServeTest, AClientMayLeaveInTheMiddle) {
  CreateModel("lm", TokenConfig());
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    SetDeadline(context);
    const auto stream = stub->ModelStreamInfer(&context);
    for (int j = 0; j <= i; ++j) stream->Write(TokenRequest());
    ModelStreamInferResponse response;
    if (i % 2 == 0) stream->Read(&response);
    context.TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), StatusCode::CANCELLED);
  }
  ModelInferResponse response;
  ExpectOk(Infer(TokenRequest(), &response));
}

TEST_F(KServeTest, ADrainEndsStreams) {
  CreateModel("lm", TokenConfig());
  grpc::ClientContext context;
  SetDeadline(context);
  const auto stream = stub->ModelStreamInfer(&context);
  ASSERT_TRUE(stream->Write(TokenRequest()));
  ModelStreamInferResponse response;
  ASSERT_TRUE(stream->Read(&response));
  server_->Drain(absl::Milliseconds(100));
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_FALSE(stream->Finish().ok());
}

// --- Shared memory ---

class KServeSharedMemoryTest : public KServeTest {
 protected:
  KServeSharedMemoryTest()
      : key(UniqueKey()),
        fd_(shm_open(key.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600)) {
    EXPECT_EQ(ftruncate(fd_, 4096), 0);
  }
  ~KServeSharedMemoryTest() override {
    close(fd_);
    shm_unlink(key.c_str());
  }
  void Put(int64_t offset, const std::string& bytes) {
    EXPECT_EQ(pwrite(fd_, bytes.data(), bytes.size(), offset),
              ssize_t(bytes.size()));
  }
  std::string Take(int64_t offset, size_t size) {
    std::string bytes(size, '\0');
    EXPECT_EQ(pread(fd_, bytes.data(), size, offset), ssize_t(size));
    return bytes;
  }
  grpc::Status Register(const std::string& name) {
    ::inference::SystemSharedMemoryRegisterRequest request;
    request.set_name(name);
    request.set_key(key);
    request.set_byte_size(4096);
    ::inference::SystemSharedMemoryRegisterResponse response;
    return Call(*stub, &Stub::SystemSharedMemoryRegister, request, &response);
  }
  std::string Regions() {
    ::inference::SystemSharedMemoryStatusResponse response;
    ExpectOk(Call(*stub, &Stub::SystemSharedMemoryStatus,
                  ::inference::SystemSharedMemoryStatusRequest(), &response));
    return response.ShortDebugString();
  }
  template <typename Tensor>
  static void Place(Tensor& tensor, int64_t offset, int64_t size) {
    auto& parameters = *tensor.mutable_parameters();
    parameters["shared_memory_region"].set_string_param("region");
    parameters["shared_memory_offset"].set_int64_param(offset);
    parameters["shared_memory_byte_size"].set_int64_param(size);
  }

  const std::string key;

 private:
  const int fd_;
};

TEST_F(KServeSharedMemoryTest, TensorsGoInAndOut) {
  CreateModel("lm", TokenConfig());
  ExpectOk(Register("region"));
  Put(16, RawBytes<int32_t>({0, 1, 2}));
  ModelInferRequest request;
  request.set_model_name("lm");
  auto& tokens = *request.add_inputs();
  tokens.set_name("tokens");
  tokens.set_datatype("INT32");
  tokens.add_shape(1);
  tokens.add_shape(3);
  Place(tokens, 16, 12);
  auto& logits = *request.add_outputs();
  logits.set_name("logits");
  Place(logits, 1024, 100);
  request.add_outputs()->set_name("classes");
  ModelInferResponse response;
  ExpectOk(Infer(request, &response));
  const v1::PredictResponse predicted = Predicted(Tokens({{0, 1, 2}}));
  EXPECT_EQ(Take(1024, 60), predicted.logits());
  EXPECT_EQ(Take(1084, 40), std::string(40, '\0'));
  // The other output's contents stand beside an empty entry.
  ASSERT_EQ(response.raw_output_contents_size(), 2);
  EXPECT_TRUE(response.raw_output_contents(0).empty());
  EXPECT_EQ(response.outputs(0)
                .parameters()
                .at("shared_memory_byte_size")
                .int64_param(),
            60);
  EXPECT_EQ(response.raw_output_contents(1).size(), 12u);
}

TEST_F(KServeSharedMemoryTest, RegionsComeAndGo) {
  EXPECT_EQ(Regions(), "");
  ExpectOk(Register("region"));
  ExpectError(Register("region"), StatusCode::ALREADY_EXISTS, "region");
  EXPECT_EQ(Regions(), absl::StrCat("regions { key: \"region\" value { name: "
                                    "\"region\" key: \"",
                                    key, "\" byte_size: 4096 } }"));
  ::inference::SystemSharedMemoryUnregisterRequest unregister;
  ::inference::SystemSharedMemoryUnregisterResponse done;
  unregister.set_name("region");
  ExpectOk(Call(*stub, &Stub::SystemSharedMemoryUnregister, unregister, &done));
  EXPECT_EQ(Regions(), "");
  ::inference::SystemSharedMemoryStatusRequest status;
  ::inference::SystemSharedMemoryStatusResponse response;
  status.set_name("region");
  ExpectError(Call(*stub, &Stub::SystemSharedMemoryStatus, status, &response),
              StatusCode::NOT_FOUND, "region");
}

TEST_F(KServeTest, ThereIsNoCudaSharedMemory) {
  ::inference::CudaSharedMemoryStatusResponse status;
  ExpectOk(Call(*stub, &Stub::CudaSharedMemoryStatus,
                ::inference::CudaSharedMemoryStatusRequest(), &status));
  EXPECT_TRUE(status.regions().empty());
  ::inference::CudaSharedMemoryRegisterResponse response;
  ExpectError(Call(*stub, &Stub::CudaSharedMemoryRegister,
                   ::inference::CudaSharedMemoryRegisterRequest(), &response),
              StatusCode::UNIMPLEMENTED, "CUDA");
}

// --- The server's own reports ---

TEST_F(KServeTest, SettingsSayWhatIsAndCannotChange) {
  ::inference::TraceSettingRequest trace;
  ::inference::TraceSettingResponse traces;
  ExpectOk(Call(*stub, &Stub::TraceSetting, trace, &traces));
  EXPECT_EQ(traces.settings().at("trace_level").value(0), "OFF");
  (*trace.mutable_settings())["trace_level"].add_value("OFF");
  ExpectOk(Call(*stub, &Stub::TraceSetting, trace, &traces));
  trace.mutable_settings()->at("trace_level").set_value(0, "TIMESTAMPS");
  ExpectError(Call(*stub, &Stub::TraceSetting, trace, &traces),
              StatusCode::UNIMPLEMENTED, "trace_level");

  ::inference::LogSettingsRequest log;
  ::inference::LogSettingsResponse logs;
  (*log.mutable_settings())["log_error"].set_bool_param(true);
  ExpectOk(Call(*stub, &Stub::LogSettings, log, &logs));
  EXPECT_TRUE(logs.settings().at("log_error").bool_param());
  (*log.mutable_settings())["log_verbose_level"].set_uint32_param(1);
  ExpectError(Call(*stub, &Stub::LogSettings, log, &logs),
              StatusCode::UNIMPLEMENTED, "log_verbose_level");
}

}  // namespace
}  // namespace recurve::server::kserve
