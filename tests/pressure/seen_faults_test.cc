// Faults seen in other servers of sequence models, each a test by its name;
// docs/serving.md has the list, and what else covers each.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/faults/draw.h"
#include "tests/faults/server_process.h"
#include "tests/pressure/connection.h"
#include "tests/pressure/refusal.h"
#include "tests/pressure/test_server.h"

namespace recurve::pressure {
namespace {

using faults::Draw;
using faults::kPatience;
using ::testing::AnyOf;

constexpr const char* kModel = "models/m";

std::vector<int32_t> Tokens(int64_t count, uint64_t seed) {
  Draw draw(seed);
  std::vector<int32_t> tokens(count);
  for (int32_t& token : tokens) {
    token = static_cast<int32_t>(draw.Between(0, kVocabulary - 1));
  }
  return tokens;
}

v1::PredictRequest SessionRequest(const std::string& session, int64_t position,
                                  const std::vector<int32_t>& tokens) {
  v1::PredictRequest request = PredictionOf(kModel, tokens);
  request.mutable_session()->set_name("sessions/" + session);
  request.mutable_session()->set_position(position);
  request.mutable_session()->set_start(position == 0);
  return request;
}

struct Reply {
  grpc::Status status;
  v1::PredictResponse response;
};

Reply Call(Connection& connection, const v1::PredictRequest& request,
           absl::Duration deadline = absl::InfiniteDuration()) {
  grpc::ClientContext context;
  if (deadline != absl::InfiniteDuration()) {
    context.set_deadline(absl::ToChronoTime(absl::Now() + deadline));
  }
  Reply reply;
  reply.status =
      connection.inference().Predict(&context, request, &reply.response);
  return reply;
}

class SeenFaultsTest : public testing::Test {
 protected:
  void Start(const std::string& devices = "cpu:1,cpu:1",
             const std::vector<std::string>& flags = {}, int hidden_size = 16) {
    server_ = std::make_unique<TestServer>(devices, flags);
    server_->CreateModel("m", TokenModel(hidden_size), 1);
  }
  Connection& connection() { return server_->connection(); }

  // The session's answer to `tokens` at `position` is that of a whole run over
  // what it has had and these.
  void ExpectGoesOn(const std::string& session, std::vector<int32_t>& had,
                    const std::vector<int32_t>& tokens) {
    const Reply reply =
        Call(connection(), SessionRequest(session, had.size(), tokens));
    ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
    had.insert(had.end(), tokens.begin(), tokens.end());
    std::vector<float> whole = server_->Predict(kModel, had);
    whole.erase(whole.begin(), whole.end() - tokens.size() * kVocabulary);
    EXPECT_EQ(FloatsOf(reply.response.logits()), whole);
  }

  void ExpectServes() {
    ASSERT_TRUE(server_->process().running()) << server_->process().Log();
    EXPECT_EQ(server_->Predict(kModel, {1, 2, 3}).size(), 3U * kVocabulary);
  }

  std::unique_ptr<TestServer> server_;
};

TEST_F(SeenFaultsTest, ATimeoutLeaksNoStateIntoTheNextSequence) {
  constexpr int kSequences = 50;
  Start();
  for (int i = 0; i < kSequences; ++i) {
    // A timeout in a sequence's first request, or in a later one...
    const std::string late = absl::StrCat("late-", i);
    if (i % 2 == 0) {
      EXPECT_TRUE(Call(connection(), SessionRequest(late, 0, Tokens(3, i)))
                      .status.ok());
    }
    Call(connection(), SessionRequest(late, i % 2 == 0 ? 3 : 0, Tokens(400, i)),
         absl::Microseconds(300 + 40 * i));
    // ...and then another sequence, also under the same name.
    std::vector<int32_t> had;
    ExpectGoesOn(absl::StrCat("next-", i), had, Tokens(5, 100 + i));
    ExpectGoesOn(absl::StrCat("next-", i), had, Tokens(2, 200 + i));
    std::vector<int32_t> again;
    ExpectGoesOn(late, again, Tokens(4, 300 + i));
  }
}

TEST_F(SeenFaultsTest, ACancelledRequestLeavesNoStateToTwoClients) {
  constexpr int kRounds = 50;
  Start();
  for (int i = 0; i < kRounds; ++i) {
    // Cancelled by the client and, the session being deleted too, released
    // twice if there were two to do it.
    const std::string cancelled = absl::StrCat("cancelled-", i);
    {
      grpc::ClientContext context;
      auto stream = connection().inference().PredictStream(&context);
      stream->Write(SessionRequest(cancelled, 0, Tokens(300, i)));
      if (i % 3 == 0) absl::SleepFor(absl::Microseconds(50 * i));
      context.TryCancel();
      stream->Finish();
    }
    {
      grpc::ClientContext context;
      v1::DeleteSessionRequest request;
      request.set_name("sessions/" + cancelled);
      google::protobuf::Empty empty;
      connection().sessions().DeleteSession(&context, request, &empty);
    }
    // Were a slot free twice, these two would have it.
    std::vector<int32_t> one, other;
    const std::string first = absl::StrCat("one-", i);
    const std::string second = absl::StrCat("other-", i);
    for (int step = 0; step < 3; ++step) {
      ExpectGoesOn(first, one, Tokens(2, 1000 + 10 * i + step));
      ExpectGoesOn(second, other, Tokens(3, 2000 + 10 * i + step));
    }
  }
}

TEST_F(SeenFaultsTest, ARequestWithStartAndEndIsAnswered) {
  Start();
  const std::vector<int32_t> tokens = Tokens(6, 1);
  const std::vector<float> expected = server_->Predict(kModel, tokens);
  v1::PredictRequest request = SessionRequest("short", 0, tokens);
  request.mutable_session()->set_end(true);
  for (int i = 0; i < 20; ++i) {
    const Reply reply = Call(connection(), request, kPatience);
    ASSERT_TRUE(reply.status.ok()) << reply.status.error_message();
    EXPECT_EQ(FloatsOf(reply.response.logits()), expected);
  }
  grpc::ClientContext context;
  const auto stream = connection().inference().PredictStream(&context);
  v1::PredictStreamResponse response;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(stream->Write(request));
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(FloatsOf(response.response().logits()), expected);
  }
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(Call(connection(), SessionRequest("short", 6, tokens))
                .status.error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(SeenFaultsTest, WorkEndsWithTheClientsDeadline) {
  constexpr int64_t kRows = 400'000;
  Start("cpu:1", {}, /*hidden_size=*/512);
  v1::PredictRequest request = PredictionOf(kModel, Tokens(kRows, 1));
  request.clear_want_logits();
  request.set_want_class(true);
  const int64_t before = server_->Rows();
  EXPECT_EQ(
      Call(connection(), request, absl::Milliseconds(300)).status.error_code(),
      grpc::StatusCode::DEADLINE_EXCEEDED);
  // The device is free for the next client at once, not after all those rows.
  EXPECT_EQ(server_->Predict(kModel, {1, 2, 3}).size(), 3U * kVocabulary);
  EXPECT_LT(server_->Rows() - before, kRows / 2);
}

TEST_F(SeenFaultsTest, AClientThatGoesAwayInTheMiddleOfAStreamDoesNoHarm) {
  constexpr int kClients = 60;
  Start();
  for (int i = 0; i < kClients; ++i) {
    Connection connection(server_->address());
    grpc::ClientContext context;
    const auto stream = connection.inference().PredictStream(&context);
    // Cut before the first request, while some are under way, or with replies
    // unread.
    for (int request = 0; request < i % 5; ++request) {
      v1::PredictRequest wire = SessionRequest(
          absl::StrCat("gone-", i, "-", request), 0, Tokens(20 * i + 1, i));
      stream->Write(wire);
    }
    if (i % 2 == 0) absl::SleepFor(absl::Microseconds(100 * i));
    connection.Cut();
    v1::PredictStreamResponse response;
    while (stream->Read(&response)) {
    }
    EXPECT_FALSE(stream->Finish().ok());
  }
  ExpectServes();
}

TEST_F(SeenFaultsTest, DeadlinesOfAFewMillisecondsDoNoHarm) {
  constexpr int kThreads = 8;
  constexpr int kCalls = 150;
  Start();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Connection connection(server_->address());
      for (int i = 0; i < kCalls; ++i) {
        const absl::Duration deadline = absl::Milliseconds(1 + i % 4);
        const std::vector<int32_t> tokens = Tokens(1 + 7 * (i % 40), i);
        const std::string session = absl::StrCat("hurried-", t, "-", i);
        const Reply reply = Call(connection,
                                 i % 2 == 0 ? SessionRequest(session, 0, tokens)
                                            : PredictionOf(kModel, tokens),
                                 deadline);
        EXPECT_THAT(
            reply.status.error_code(),
            AnyOf(grpc::StatusCode::OK, grpc::StatusCode::DEADLINE_EXCEEDED,
                  grpc::StatusCode::RESOURCE_EXHAUSTED))
            << reply.status.error_message();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ExpectServes();
}

// pressure_test has the same of sessions, for longer.
TEST_F(SeenFaultsTest, MemoryDoesNotGrowUnderLoad) {
  constexpr int kThreads = 8;
  constexpr int kCalls = 400;
  constexpr int64_t kMayGrow = 8 << 20;
  Start();
  const auto load = [this] {
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kCalls; ++i) {
          server_->Predict(kModel, Tokens(1 + (i * 37 + t) % 300, i));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  };
  load();
  const std::vector<int64_t> reserved = server_->ReservedBytes();
  const int64_t before = server_->process().ResidentBytes();
  for (int i = 0; i < 3; ++i) load();
  EXPECT_LE(server_->process().ResidentBytes(), before + kMayGrow);
  EXPECT_EQ(server_->ReservedBytes(), reserved);
}

TEST_F(SeenFaultsTest, AServerThatSaysItServesAnswers) {
  constexpr int kStarts = 3;
  faults::Folder folder;
  const std::string data = folder.path() + "/data";
  for (int i = 0; i < kStarts; ++i) {
    const auto process =
        faults::ServerProcess::Start(data, "cpu:1", {"--listen=127.0.0.1:0"});
    const auto address = process->Address();
    ASSERT_TRUE(address.ok()) << address.status();
    auto client = Client::Connect(*address);
    while (!client->CheckHealth().ok() && process->running()) {
    }
    if (i == 0) {
      v1::CreateModelRequest request;
      request.set_model_id("m");
      *request.mutable_config() = TokenModel(16);
      ASSERT_TRUE(client->CreateModel(request).ok());
    }
    const auto response = client->Predict(PredictionOf(kModel, {1, 2}));
    EXPECT_TRUE(response.ok()) << response.status();
    client.reset();  // or the server waits for it
    EXPECT_EQ(process->Terminate(), 0);
  }
}

TEST_F(SeenFaultsTest, ReloadingAModelNeedsNoMemoryForTwo) {
  constexpr int kVersions = 12;
  // Some 2 MiB of weights a version, and 2176 KiB of workspace: two do not fit
  // beside an arena.
  Start("cpu:1:memory=6MiB", {"--max_batch_rows=64"}, /*hidden_size=*/352);
  std::atomic<bool> stop{false};
  std::atomic<int> answered{0};
  std::thread client([&] {
    while (!stop) {
      server_->Predict(kModel, Tokens(40, 1));
      ++answered;
    }
  });
  for (int i = 0; i < kVersions; ++i) {
    server_->CreateModel(absl::StrCat("next-", i), TokenModel(352), i);
    server_->Publish(absl::StrCat("next-", i), "m");
    const int seen = answered;
    const absl::Time patience = absl::Now() + kPatience;
    while (answered < seen + 3 && absl::Now() < patience) {
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  stop = true;
  client.join();
  for (const v1::Device& device : server_->Devices()) {
    EXPECT_LE(device.reserved_high_water_bytes(), device.budget_bytes());
    EXPECT_LE(device.used_high_water_bytes(), device.budget_bytes());
  }
  EXPECT_EQ(
      server_->Predict(kModel, {1, 2, 3}),
      server_->Predict(absl::StrCat("models/next-", kVersions - 1), {1, 2, 3}));
}

TEST_F(SeenFaultsTest, WhileItDrainsRequestsAreFinishedOrUnavailable) {
  constexpr int kClients = 8;
  Start("cpu:1", {}, /*hidden_size=*/128);
  std::atomic<int> answered{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kClients; ++t) {
    threads.emplace_back([&, t] {
      Connection connection(server_->address());
      for (;;) {
        const Reply reply =
            Call(connection, PredictionOf(kModel, Tokens(500, t)));
        if (!reply.status.ok()) {
          EXPECT_EQ(reply.status.error_code(), grpc::StatusCode::UNAVAILABLE)
              << reply.status.error_message();
          return;
        }
        ++answered;
      }
    });
  }
  while (answered < 3 * kClients && server_->process().running()) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(server_->process().Terminate(), 0) << server_->process().Log();
  for (std::thread& thread : threads) thread.join();
}

TEST_F(SeenFaultsTest, MessagesOfMoreThanFourMebibytesPass) {
  constexpr int64_t kRows = 500'000;  // 32 MB of logits
  constexpr int64_t kFeatures = 64;
  Start();
  v1::ModelConfig features = TokenModel(8);
  features.mutable_input()->mutable_features()->set_size(kFeatures);
  server_->CreateModel("features", features, 1);
  // With a client's own defaults.
  v1::PredictRequest large;
  large.set_model("models/features");
  large.mutable_batch()->add_cu_seqlens(0);
  large.mutable_batch()->add_cu_seqlens(30'000);
  large.mutable_batch()->mutable_features()->resize(30'000 * kFeatures *
                                                    sizeof(float));
  large.set_want_class(true);
  EXPECT_GT(large.ByteSizeLong(), 7U << 20);
  const auto stub = v1::Inference::NewStub(grpc::CreateChannel(
      server_->address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::PredictResponse response;
  const grpc::Status status = stub->Predict(&context, large, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.classes_size(), 30'000);
  // And results to one that takes them.
  EXPECT_EQ(server_->Predict(kModel, Tokens(kRows, 1)).size(),
            static_cast<size_t>(kRows) * kVocabulary);
}

}  // namespace
}  // namespace recurve::pressure
