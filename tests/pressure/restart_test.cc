// Sessions in use while the server is told to stop: with the next server each
// is where its last request left it, or where that found it, and goes on.
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/faults/draw.h"
#include "tests/pressure/connection.h"
#include "tests/pressure/session_history.h"
#include "tests/pressure/test_server.h"

namespace recurve::pressure {
namespace {

using Kind = Operation::Kind;
using Outcome = Operation::Outcome;

constexpr int kSessions = 40;
constexpr int kRequestsBefore = 200;  // of all sessions, before it stops
constexpr const char* kModel = "models/m";

class RestartTest : public testing::Test {
 protected:
  struct Session {
    std::string name;
    faults::Draw draw{0};
    int64_t position = 0;
    SessionHistory history{std::string(kModel) + "/versions/1"};
  };

  RestartTest() : server_("cpu:1,cpu:1", {}) {
    server_.CreateModel("m", TokenModel(24), 1);
  }

  // Whether it was answered.
  bool SendChunk(Connection& connection, Session& session) {
    Operation operation;
    operation.position = session.position;
    operation.tokens.resize(session.draw.Between(1, 60));
    for (int32_t& token : operation.tokens) {
      token = static_cast<int32_t>(session.draw.Between(0, kVocabulary - 1));
    }
    v1::PredictRequest request = PredictionOf(kModel, operation.tokens);
    request.mutable_session()->set_name(session.name);
    request.mutable_session()->set_position(operation.position);
    request.mutable_session()->set_start(operation.position == 0);
    grpc::ClientContext context;
    v1::PredictResponse response;
    const grpc::Status status =
        connection.inference().Predict(&context, request, &response);
    operation.outcome = status.ok() ? Outcome::kDone : Outcome::kUnknown;
    if (status.ok()) {
      operation.reply_position = session.position = response.position();
      operation.outputs = FloatsOf(response.logits());
    } else {
      EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE)
          << status.error_message();
    }
    session.history.Add(std::move(operation));
    return status.ok();
  }

  void AskPosition(Session& session) {
    grpc::ClientContext context;
    v1::GetSessionRequest request;
    request.set_name(session.name);
    v1::Session found;
    const grpc::Status status =
        server_.connection().sessions().GetSession(&context, request, &found);
    ASSERT_TRUE(status.ok()) << session.name << ": " << status.error_message();
    Operation operation;
    operation.kind = Kind::kPosition;
    operation.position = session.position = found.position();
    session.history.Add(std::move(operation));
  }

  absl::StatusOr<std::vector<float>> Offline(
      const std::vector<Segment>& segments) {
    EXPECT_EQ(segments.size(), 1U);
    return server_.Predict(segments[0].version, segments[0].tokens);
  }

  TestServer server_;
};

TEST_F(RestartTest, SessionsInUseGoOnWithTheNextServer) {
  std::vector<Session> sessions(kSessions);
  std::atomic<int> requests{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < kSessions; ++i) {
    sessions[i].name = absl::StrCat("sessions/s-", i);
    sessions[i].draw = faults::Draw(i);
    // The first is answered: that it began is certain.
    ASSERT_TRUE(SendChunk(server_.connection(), sessions[i]));
  }
  const std::string address = server_.address();
  for (Session& session : sessions) {
    clients.emplace_back([&] {
      Connection connection(address);
      while (SendChunk(connection, session)) ++requests;
    });
  }
  while (requests < kRequestsBefore && server_.process().running()) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  server_.Restart();
  for (std::thread& client : clients) client.join();

  for (Session& session : sessions) {
    AskPosition(session);
    if (HasFatalFailure()) return;
    EXPECT_TRUE(SendChunk(server_.connection(), session));
    const absl::Status status = session.history.Check(
        [this](const std::vector<Segment>& segments) {
          return Offline(segments);
        },
        1e-5F);
    EXPECT_TRUE(status.ok()) << session.name << ": " << status;
  }
}

}  // namespace
}  // namespace recurve::pressure
