#include <string>
#include <thread>
#include <vector>

#include "server/services/service_test_util.h"

namespace recurve::server {
namespace {

using grpc::StatusCode;

class GenerateTest : public ServiceTest {
 protected:
  GenerateTest() {
    v1::CreateModelRequest request;
    request.set_model_id("lm");
    request.set_seed(3);
    *request.mutable_config() = TokenConfig();
    for (const char* token : {"a", "b", "\xc3\xa4", "d", "e"}) {
      request.add_vocabulary(token);
    }
    v1::Model model;
    ExpectOk(Call(*models, &v1::Models::Stub::CreateModel, request, &model));
  }

  static v1::GenerateRequest Request(int max_tokens = 12) {
    v1::GenerateRequest request;
    request.set_model("models/lm");
    request.set_text("ab");
    request.set_max_tokens(max_tokens);
    request.mutable_sampling()->set_seed(7);
    return request;
  }
  grpc::Status Generate(const v1::GenerateRequest& request,
                        std::vector<v1::GenerateResponse>* messages) {
    messages->clear();
    grpc::ClientContext context;
    auto reader = inference->Generate(&context, request);
    v1::GenerateResponse message;
    while (reader->Read(&message)) messages->push_back(message);
    return reader->Finish();
  }
  void ExpectRefused(const v1::GenerateRequest& request, StatusCode code,
                     const std::string& fragment) {
    std::vector<v1::GenerateResponse> messages;
    ExpectError(Generate(request, &messages), code, fragment);
    EXPECT_TRUE(messages.empty());
  }
  // Of a sample's messages.
  static std::string Text(const std::vector<v1::GenerateResponse>& messages,
                          int sample = 0) {
    std::string text;
    for (const auto& message : messages) {
      if (message.sample() == sample) text += message.text();
    }
    return text;
  }
  static std::vector<int> Tokens(
      const std::vector<v1::GenerateResponse>& messages, int sample = 0) {
    std::vector<int> tokens;
    for (const auto& message : messages) {
      if (message.sample() != sample) continue;
      tokens.insert(tokens.end(), message.tokens().begin(),
                    message.tokens().end());
    }
    return tokens;
  }
};

TEST_F(GenerateTest, StreamsTokensAsTheyAreDrawn) {
  std::vector<v1::GenerateResponse> messages;
  ExpectOk(Generate(Request(), &messages));
  ASSERT_EQ(messages.size(), 12u);
  EXPECT_EQ(messages[0].model_version(), "models/lm/versions/1");
  EXPECT_EQ(messages[0].seed(), 7u);
  EXPECT_EQ(messages[1].model_version(), "");
  const std::vector<std::string> vocabulary = {"a", "b", "\xc3\xa4", "d", "e"};
  for (const auto& message : messages) {
    ASSERT_EQ(message.tokens_size(), 1);
    EXPECT_EQ(message.text(), vocabulary[message.tokens(0)]);
    EXPECT_LE(message.log_probabilities(0), 0);
    EXPECT_EQ(message.finish_reason() == v1::GenerateResponse::LENGTH,
              &message == &messages.back());
  }
  // The tokens as the prompt, and again.
  std::vector<v1::GenerateResponse> again;
  v1::GenerateRequest request = Request();
  request.mutable_tokens()->add_tokens(0);
  request.mutable_tokens()->add_tokens(1);
  ExpectOk(Generate(request, &again));
  EXPECT_EQ(Tokens(again), Tokens(messages));
}

TEST_F(GenerateTest, ASeedThatTheServerChoseGivesTheSameTextLater) {
  v1::GenerateRequest request = Request(30);
  request.mutable_sampling()->clear_seed();
  std::vector<v1::GenerateResponse> first, second;
  ExpectOk(Generate(request, &first));
  request.mutable_sampling()->set_seed(first[0].seed());
  ExpectOk(Generate(request, &second));
  EXPECT_EQ(Tokens(first), Tokens(second));
}

TEST_F(GenerateTest, SamplesStopsEchoAndCandidates) {
  v1::GenerateRequest request = Request(40);
  request.set_n(3);
  request.add_stop("e");
  request.set_echo(true);
  request.set_top_log_probabilities(2);
  std::vector<v1::GenerateResponse> messages;
  ExpectOk(Generate(request, &messages));
  for (int sample = 0; sample < 3; ++sample) {
    EXPECT_EQ(Text(messages, sample).substr(0, 2), "ab");
    EXPECT_EQ(Text(messages, sample).find('e'), std::string::npos);
    EXPECT_EQ(messages[sample].sample(), sample);
    EXPECT_EQ(messages[sample].tokens_size(), 2);
    EXPECT_EQ(messages[sample].log_probabilities_size(), 0);
  }
  ASSERT_EQ(messages.back().top_size(), 1);
  EXPECT_EQ(messages.back().top(0).tokens_size(), 2);
  EXPECT_EQ(messages.back().finish_reason(), v1::GenerateResponse::STOP);
}

TEST_F(GenerateTest, GoesOnWithASession) {
  v1::GenerateRequest request = Request(5);
  request.mutable_sampling()->set_temperature(0);
  request.mutable_session()->set_name("sessions/s");
  request.mutable_session()->set_start(true);
  std::vector<v1::GenerateResponse> first, second, whole;
  ExpectOk(Generate(request, &first));
  EXPECT_EQ(first.back().position(), 7);

  request.mutable_session()->set_start(false);
  request.mutable_session()->set_position(3);
  ExpectRefused(request, StatusCode::FAILED_PRECONDITION, "7");
  request.mutable_session()->set_position(7);
  request.set_text("d");
  request.clear_model();
  ExpectOk(Generate(request, &second));
  EXPECT_EQ(second.back().position(), 13);

  v1::GenerateRequest offline = Request(5);
  offline.mutable_sampling()->set_temperature(0);
  offline.set_text("ab" + Text(first) + "d");
  ExpectOk(Generate(offline, &whole));
  EXPECT_EQ(Tokens(second), Tokens(whole));

  request.mutable_session()->set_name("sessions/t");
  request.mutable_session()->clear_position();
  ExpectRefused(request, StatusCode::NOT_FOUND, "sessions/t");
}

TEST_F(GenerateTest, BadRequestsSayWhatIsWrong) {
  v1::GenerateRequest request = Request();
  request.set_model("models/ml");
  ExpectRefused(request, StatusCode::NOT_FOUND, "models/ml");
  CreateModel("features", FeatureConfig());
  request.set_model("models/features");
  ExpectRefused(request, StatusCode::FAILED_PRECONDITION, "language model");
  CreateModel("textless", TokenConfig());
  request.set_model("models/textless");
  ExpectRefused(request, StatusCode::FAILED_PRECONDITION, "vocabulary");
  request = Request();
  request.set_text("abc");
  ExpectRefused(request, StatusCode::INVALID_ARGUMENT, "'c'");
  request.set_text("");
  ExpectRefused(request, StatusCode::INVALID_ARGUMENT, "prompt");
  ExpectRefused(Request(0), StatusCode::INVALID_ARGUMENT, "max_tokens");
  request = Request();
  request.set_n(-1);
  ExpectRefused(request, StatusCode::INVALID_ARGUMENT, "n:");
  request = Request();
  request.mutable_sampling()->set_top_p(0);
  ExpectRefused(request, StatusCode::INVALID_ARGUMENT, "top_p");
  request = Request();
  request.set_priority(100);
  ExpectRefused(request, StatusCode::INVALID_ARGUMENT, "priority");
}

TEST_F(GenerateTest, AClientThatLeavesOrIsLateCostsNoMore) {
  {
    grpc::ClientContext context;
    auto reader = inference->Generate(&context, Request(1000000));
    v1::GenerateResponse message;
    ASSERT_TRUE(reader->Read(&message));
    context.TryCancel();
    while (reader->Read(&message)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), StatusCode::CANCELLED);
  }
  {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(100));
    auto reader = inference->Generate(&context, Request(1000000));
    v1::GenerateResponse message;
    while (reader->Read(&message)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), StatusCode::DEADLINE_EXCEEDED);
  }
  // Nobody uses the version any more: it can be unloaded.
  v1::UnloadModelVersionRequest unload;
  unload.set_name("models/lm");
  v1::ModelVersion version;
  ExpectOk(
      Call(*models, &v1::Models::Stub::UnloadModelVersion, unload, &version));
  v1::GetModelVersionRequest get;
  get.set_name("models/lm");
  while (version.state() != v1::ModelVersion::UNLOADED) {
    std::this_thread::yield();
    ExpectOk(Call(*models, &v1::Models::Stub::GetModelVersion, get, &version));
  }
  ExpectRefused(Request(), StatusCode::FAILED_PRECONDITION, "unloaded");
}

}  // namespace
}  // namespace recurve::server
