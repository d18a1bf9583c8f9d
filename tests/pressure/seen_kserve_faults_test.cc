// Of the faults seen in other servers those of sequences and of readiness, by
// the Open Inference Protocol, whose servers had them.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/inference/inference.grpc.pb.h"
#include "tests/faults/server_process.h"
#include "tests/pressure/test_server.h"

namespace recurve::pressure {
namespace {

using faults::kPatience;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr const char* kModel = "m";

class SeenKServeFaultsTest : public testing::Test {
 protected:
  SeenKServeFaultsTest()
      : server_("cpu:1,cpu:1", {}),
        stub_(inference::GRPCInferenceService::NewStub(grpc::CreateChannel(
            server_.address(), grpc::InsecureChannelCredentials()))) {
    server_.CreateModel(kModel, TokenModel(16), 1);
  }

  struct Reply {
    grpc::Status status;
    std::vector<float> logits;
  };

  static inference::ModelInferRequest Request(
      const std::vector<int32_t>& tokens, int64_t sequence, bool start,
      bool end) {
    inference::ModelInferRequest request;
    request.set_model_name(kModel);
    auto& parameters = *request.mutable_parameters();
    parameters["sequence_id"].set_int64_param(sequence);
    parameters["sequence_start"].set_bool_param(start);
    parameters["sequence_end"].set_bool_param(end);
    auto& input = *request.add_inputs();
    input.set_name("tokens");
    input.set_datatype("INT32");
    input.add_shape(1);
    input.add_shape(static_cast<int64_t>(tokens.size()));
    request.add_raw_input_contents(tokens.data(),
                                   sizeof(int32_t) * tokens.size());
    return request;
  }

  Reply Infer(const inference::ModelInferRequest& request,
              absl::Duration deadline = kPatience) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + deadline));
    inference::ModelInferResponse response;
    Reply reply;
    reply.status = stub_->ModelInfer(&context, request, &response);
    if (response.raw_output_contents_size() > 0) {
      reply.logits = FloatsOf(response.raw_output_contents(0));
    }
    return reply;
  }

  bool IsReady(const std::string& model) {
    grpc::ClientContext context;
    inference::ModelReadyRequest request;
    request.set_name(model);
    inference::ModelReadyResponse response;
    const grpc::Status status = stub_->ModelReady(&context, request, &response);
    return status.ok() && response.ready();
  }

  TestServer server_;
  std::unique_ptr<inference::GRPCInferenceService::Stub> stub_;
};

TEST_F(SeenKServeFaultsTest, ATimeoutLeaksNoStateIntoTheNextSequence) {
  constexpr int kSequences = 40;
  const std::vector<int32_t> first = {1, 2, 3}, second = {4, 5};
  const std::vector<float> whole = server_.Predict("models/m", {1, 2, 3, 4, 5});
  const std::vector<int32_t> late(600, 7);
  for (int i = 0; i < kSequences; ++i) {
    EXPECT_TRUE(Infer(Request({9, 9}, 5, true, false)).status.ok());
    Infer(Request(late, 5, false, false), absl::Microseconds(300 + 50 * i));
    // The same id and another, both new sequences.
    for (const int64_t id : {5, 6}) {
      std::vector<float> logits;
      for (const auto& [tokens, start] :
           {std::pair(first, true), std::pair(second, false)}) {
        const Reply reply = Infer(Request(tokens, id, start, !start));
        ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
        logits.insert(logits.end(), reply.logits.begin(), reply.logits.end());
      }
      EXPECT_EQ(logits, whole);
    }
  }
}

TEST_F(SeenKServeFaultsTest, ARequestWithStartAndEndIsAnswered) {
  const std::vector<int32_t> tokens = {3, 1, 4, 1, 5};
  const std::vector<float> expected = server_.Predict("models/m", tokens);
  for (int i = 0; i < 20; ++i) {
    const Reply reply = Infer(Request(tokens, 11, true, true));
    ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
    EXPECT_EQ(reply.logits, expected);
  }
  // Nothing of it is left to go on from.
  const grpc::Status after = Infer(Request(tokens, 11, false, false)).status;
  EXPECT_FALSE(after.ok());
  EXPECT_THAT(after.error_message(), HasSubstr("start"));
}

TEST_F(SeenKServeFaultsTest, AModelThatSaysItIsReadyAnswers) {
  EXPECT_FALSE(IsReady("unknown"));
  ASSERT_TRUE(IsReady(kModel));
  EXPECT_TRUE(Infer(Request({1}, 0, false, false)).status.ok());
  grpc::ClientContext context;
  inference::RepositoryModelUnloadRequest unload;
  unload.set_model_name(kModel);
  inference::RepositoryModelUnloadResponse response;
  const grpc::Status status =
      stub_->RepositoryModelUnload(&context, unload, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_FALSE(IsReady(kModel));
  EXPECT_FALSE(Infer(Request({1}, 0, false, false)).status.ok());
}

TEST_F(SeenKServeFaultsTest, DeadlinesOfAFewMillisecondsDoNoHarm) {
  for (int i = 0; i < 400; ++i) {
    const grpc::Status status =
        Infer(Request(std::vector<int32_t>(1 + 5 * (i % 60), 2), i + 1, true,
                      i % 3 == 0),
              absl::Milliseconds(1 + i % 4))
            .status;
    EXPECT_THAT(status.error_code(),
                AnyOf(grpc::StatusCode::OK, grpc::StatusCode::DEADLINE_EXCEEDED,
                      grpc::StatusCode::RESOURCE_EXHAUSTED))
        << status.error_message();
  }
  ASSERT_TRUE(server_.process().running()) << server_.process().Log();
  EXPECT_TRUE(Infer(Request({1}, 0, false, false)).status.ok());
}

}  // namespace
}  // namespace recurve::pressure
