// What holds for the server as a whole.
#include "server/server.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "grpcpp/create_channel.h"
#include "grpcpp/impl/codegen/client_unary_call.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/services/service_test_util.h"

namespace recurve::server {
namespace {

using grpc::StatusCode;

class ServerTest : public ServiceTest {
 protected:
  static constexpr int kLongRows = 900000;

  static v1::PredictRequest LongRequest() {
    v1::PredictRequest request;
    request.set_model("models/lm");
    *request.mutable_batch() = Tokens({std::vector<int32_t>(kLongRows, 1)});
    request.set_want_class(true);
    return request;
  }
  // One that a long request keeps a device busy with for minutes, in passes
  // that are short on any machine.
  void CreateLargeModel() {
    config.set_max_batch_rows(64);
    Start();
    v1::ModelConfig large = TokenConfig();
    large.mutable_blocks(0)->mutable_sru()->set_hidden_size(1024);
    CreateModel("lm", large);
  }
  // grpc.health.v1.Health.Check of the server as a whole, message undecoded.
  std::string Health() {
    const grpc::internal::RpcMethod method(
        "/grpc.health.v1.Health/Check", nullptr,
        grpc::internal::RpcMethod::NORMAL_RPC);
    grpc::ClientContext context;
    grpc::ByteBuffer request, response;
    const grpc::Slice empty;
    request = grpc::ByteBuffer(&empty, 1);
    ExpectOk(grpc::internal::BlockingUnaryCall(channel.get(), method, &context,
                                               request, &response));
    grpc::Slice slice;
    EXPECT_TRUE(response.DumpToSingleSlice(&slice).ok());
    return std::string(slice.begin(), slice.end());
  }
  // Begins a Predict that takes long and returns once it is under way.
  std::thread BeginLongPredict(grpc::Status* status) {
    std::thread thread([this, status] {
      v1::PredictResponse response;
      *status = inference->Predict(&long_call_, LongRequest(), &response);
    });
    WaitForRows();
    return thread;
  }

  grpc::ClientContext long_call_;
};

TEST_F(ServerTest, TakesCompressedRequestsAndSendsCompressedReplies) {
  CreateModel("lm", TokenConfig());
  v1::PredictRequest request;
  request.set_model("models/lm");
  *request.mutable_batch() = Tokens({std::vector<int32_t>(500, 1)});
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  context.AddMetadata("reply-encoding", "gzip");
  // Shows messages as they came.
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto raw = grpc::CreateCustomChannel(
      server_->address(), grpc::InsecureChannelCredentials(), arguments);
  const grpc::internal::RpcMethod method("/recurve.v1.Inference/Predict",
                                         nullptr,
                                         grpc::internal::RpcMethod::NORMAL_RPC);
  grpc::ByteBuffer response;
  ExpectOk(grpc::internal::BlockingUnaryCall(raw.get(), method, &context,
                                             request, &response));
  grpc::Slice slice;
  ASSERT_TRUE(response.DumpToSingleSlice(&slice).ok());
  const std::string bytes(slice.begin(), slice.end());
  EXPECT_EQ(bytes.substr(0, 2), "\x1f\x8b");  // gzip's magic number
  v1::PredictResponse plain;
  ExpectOk(Call(*inference, &v1::Inference::Stub::Predict, request, &plain));
  EXPECT_LT(bytes.size(), plain.ByteSizeLong() / 4);  // the same row 500 times
}

TEST_F(ServerTest, OneServerAtATimeOnAPortAndAFolder) {
  ServerConfig second = config;
  const auto same_folder = Server::Start(second);
  EXPECT_EQ(same_folder.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(same_folder.status().message().find("in use"),
            absl::string_view::npos);
  second.set_data_dir(directory + "/other");
  second.set_listen(server_->address());
  const auto same_port = Server::Start(second);
  EXPECT_EQ(same_port.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(same_port.status().message().find(server_->address()),
            absl::string_view::npos);
}

TEST_F(ServerTest, HealthIsServing) {
  EXPECT_EQ(Health(), std::string("\x08\x01"));  // status: SERVING
}

TEST_F(ServerTest, BadConfigurationsAreRefused) {
  const auto code = [this](auto edit) {
    ServerConfig bad = config;
    bad.set_data_dir(directory + "/other");
    edit(bad);
    return Server::Start(bad).status().code();
  };
  using absl::StatusCode;
  EXPECT_EQ(code([](ServerConfig& c) { c.set_max_trainers(0); }),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](ServerConfig& c) { c.set_max_message_bytes(1ll << 40); }),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](ServerConfig& c) { c.set_devices("gpu"); }),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](ServerConfig& c) { c.set_listen("50051"); }),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](ServerConfig& c) { c.set_listen("0.0.0.0:0"); }),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](ServerConfig& c) { c.set_keepalive_time("0s"); }),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](ServerConfig& c) { c.set_tls_key("absent"); }),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code([](ServerConfig& c) { c.set_data_dir("/dev/null/x"); }),
            StatusCode::kFailedPrecondition);
}

TEST_F(ServerTest, DrainFinishesWhatWasAccepted) {
  CreateModel("lm", TokenConfig());
  grpc::Status status;
  std::thread call = BeginLongPredict(&status);
  server_->Drain(kPatience);
  call.join();
  ExpectOk(status);
}

TEST_F(ServerTest, WhileItDrainsHealthIsAnsweredAndCallsAreUnavailable) {
  CreateLargeModel();
  grpc::Status status;
  std::thread call = BeginLongPredict(&status);
  std::thread drain([this] { server_->Drain(kPatience); });
  WaitUntil("it says NOT_SERVING",
            [this] { return Health() == std::string("\x08\x02"); });
  // Also for what is not there: never an error that a client takes for final.
  v1::PredictRequest request;
  for (const char* model : {"models/lm", "models/absent"}) {
    request.set_model(model);
    v1::PredictResponse response;
    ExpectError(
        Call(*inference, &v1::Inference::Stub::Predict, request, &response),
        StatusCode::UNAVAILABLE, "shutting down");
  }
  long_call_.TryCancel();
  call.join();
  EXPECT_EQ(status.error_code(), StatusCode::CANCELLED);
  drain.join();
}

TEST_F(ServerTest, ThroughADrainClientsSeeResultsAndUnavailable) {
  CreateModel("lm", TokenConfig());
  std::atomic<int> served = 0;
  std::vector<std::thread> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back([&] {
      v1::PredictRequest request;
      request.set_model("models/lm");
      *request.mutable_batch() = Tokens({{1, 2, 3}});
      for (;;) {
        v1::PredictResponse response;
        const grpc::Status status =
            Call(*inference, &v1::Inference::Stub::Predict, request, &response);
        if (status.ok()) {
          ++served;
          continue;
        }
        // Whoever tries again without a pause may meet the end of the
        // connection, which is CANCELLED.
        EXPECT_EQ(status.error_code(), StatusCode::UNAVAILABLE)
            << status.error_message();
        return;
      }
    });
  }
  WaitUntil("clients are served", [&] { return served > 20; });
  server_->Drain(kPatience);
  for (std::thread& client : clients) client.join();
}

TEST_F(ServerTest, DrainStopsWhatIsNotDoneInTime) {
  CreateLargeModel();
  grpc::Status status;
  std::thread call = BeginLongPredict(&status);
  server_->Drain(absl::Milliseconds(100));
  call.join();
  ExpectError(status, StatusCode::UNAVAILABLE, "shutting down");
}

TEST_F(ServerTest, ACancelledCallFreesItsDevice) {
  CreateLargeModel();
  grpc::ClientContext context;
  grpc::Status status;
  std::thread call([&] {
    v1::PredictResponse response;
    status = inference->Predict(&context, LongRequest(), &response);
  });
  WaitForRows();
  context.TryCancel();
  call.join();
  EXPECT_EQ(status.error_code(), StatusCode::CANCELLED);
  v1::PredictRequest request;
  request.set_model("models/lm");
  *request.mutable_batch() = Tokens({{1}, {2}});
  v1::PredictResponse response;
  ExpectOk(Call(*inference, &v1::Inference::Stub::Predict, request, &response));
  EXPECT_LT(Rows(), kLongRows);
}

}  // namespace
}  // namespace recurve::server
