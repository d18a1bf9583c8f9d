// Sessions, by Predict, PredictStream and the service Sessions.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/serve/session_rows.h"
#include "engine/serve/session_snapshot.h"
#include "server/services/service_test_util.h"

namespace recurve::server {
namespace {

using grpc::StatusCode;
using Stub = v1::Sessions::Stub;

class SessionsTest : public ServiceTest {
 protected:
  SessionsTest() { CreateModel("lm", TokenConfig()); }

  static v1::PredictRequest Request(const std::string& session,
                                    const std::vector<int32_t>& tokens) {
    v1::PredictRequest request;
    *request.mutable_batch() = Tokens({tokens});
    if (!session.empty()) request.mutable_session()->set_name(session);
    return request;
  }
  static v1::PredictRequest Begin(const std::string& session,
                                  const std::vector<int32_t>& tokens,
                                  const std::string& model = "models/lm") {
    v1::PredictRequest request = Request(session, tokens);
    request.mutable_session()->set_start(true);
    request.set_model(model);
    return request;
  }
  static v1::PredictRequest At(v1::PredictRequest request, int64_t position) {
    request.mutable_session()->set_position(position);
    return request;
  }

  grpc::Status Predict(const v1::PredictRequest& request,
                       v1::PredictResponse* response) {
    return Call(*inference, &v1::Inference::Stub::Predict, request, response);
  }
  v1::PredictResponse Ok(const v1::PredictRequest& request) {
    v1::PredictResponse response;
    ExpectOk(Predict(request, &response));
    return response;
  }
  void Refused(const v1::PredictRequest& request, StatusCode code,
               const std::string& word) {
    v1::PredictResponse response;
    ExpectError(Predict(request, &response), code, word);
  }

  // The logits of an uninterrupted run.
  std::string Offline(const std::vector<int32_t>& tokens) {
    v1::PredictRequest request = Request("", tokens);
    request.set_model("models/lm/versions/1");
    return Ok(request).logits();
  }

  template <typename Request>
  v1::Session Ok(grpc::Status (Stub::*method)(grpc::ClientContext*,
                                              const Request&, v1::Session*),
                 const Request& request) {
    v1::Session session;
    ExpectOk(Call(*sessions, method, request, &session));
    return session;
  }
  grpc::Status Get(const std::string& name, v1::Session* session) {
    v1::GetSessionRequest request;
    request.set_name(name);
    return Call(*sessions, &Stub::GetSession, request, session);
  }
  int64_t PositionOf(const std::string& name) {
    v1::Session session;
    return Get(name, &session).ok() ? session.position() : -1;
  }
  // That devices have reserved for the states of all sessions.
  int64_t BytesOfStates() {
    v1::ListDevicesResponse list;
    ExpectOk(Call(*devices, &v1::Devices::Stub::ListDevices,
                  v1::ListDevicesRequest(), &list));
    int64_t bytes = 0;
    for (const v1::Device& device : list.devices()) {
      for (const v1::MemoryOwner& owner : device.owners()) {
        if (owner.owner() == "sessions") bytes += owner.planned_bytes();
      }
    }
    return bytes;
  }
  v1::SessionSnapshot Snapshot(const std::string& name) {
    v1::SnapshotSessionRequest request;
    request.set_name(name);
    v1::SessionSnapshot snapshot;
    ExpectOk(Call(*sessions, &Stub::SnapshotSession, request, &snapshot));
    return snapshot;
  }
  static v1::CreateSessionRequest Restore(const std::string& id,
                                          const std::string& snapshot,
                                          const std::string& model) {
    v1::CreateSessionRequest request;
    request.set_session_id(id);
    request.set_model(model);
    request.set_snapshot(snapshot);
    return request;
  }
};

TEST_F(SessionsTest, APredictGoesOnWhereTheOneBeforeEnded) {
  const v1::PredictResponse first = Ok(Begin("sessions/a", {0, 1, 2}));
  EXPECT_EQ(first.position(), 3);
  EXPECT_EQ(first.model_version(), "models/lm/versions/1");
  const v1::PredictResponse second = Ok(Request("sessions/a", {3}));
  const v1::PredictResponse third = Ok(Request("sessions/a", {4, 4}));
  EXPECT_EQ(third.position(), 6);
  EXPECT_EQ(first.logits() + second.logits() + third.logits(),
            Offline({0, 1, 2, 3, 4, 4}));
}

TEST_F(SessionsTest, WantStateIsTheStateAfterTheRows) {
  Ok(Begin("sessions/a", {0, 1}));
  v1::PredictRequest request = Request("sessions/a", {2});
  request.set_want_state(true);
  const std::string state = Ok(request).state();
  v1::PredictRequest offline = Request("", {0, 1, 2});
  offline.set_model("models/lm");
  offline.set_want_state(true);
  EXPECT_EQ(state, Ok(offline).state());
}

TEST_F(SessionsTest, OneRequestMayStartAndEnd) {
  v1::PredictRequest request = Begin("sessions/a", {0, 1});
  request.mutable_session()->set_end(true);
  EXPECT_EQ(Ok(request).logits(), Offline({0, 1}));
  EXPECT_EQ(PositionOf("sessions/a"), -1);
  EXPECT_EQ(Ok(request).logits(), Offline({0, 1}));
}

TEST_F(SessionsTest, ARequestMadeAgainIsAnsweredAndNotAppliedTwice) {
  const std::string first = Ok(At(Begin("sessions/a", {0}), 0)).logits();
  EXPECT_EQ(Ok(At(Begin("sessions/a", {0}), 0)).logits(), first);
  const v1::PredictRequest request = At(Request("sessions/a", {1, 2}), 1);
  const v1::PredictResponse second = Ok(request);
  const v1::PredictResponse again = Ok(request);
  EXPECT_EQ(again.logits(), second.logits());
  EXPECT_EQ(again.position(), 3);
  EXPECT_EQ(PositionOf("sessions/a"), 3);
  Refused(At(Request("sessions/a", {1, 1}), 1), StatusCode::FAILED_PRECONDITION,
          "is at 3");
  EXPECT_EQ(first + second.logits() + Ok(Request("sessions/a", {3})).logits(),
            Offline({0, 1, 2, 3}));
}

TEST_F(SessionsTest, OneThatHasEndedHasNoPlaceOnADevice) {
  Ok(Begin("sessions/a", {0, 1}));
  EXPECT_GT(BytesOfStates(), 0);
  v1::PredictRequest last = At(Request("sessions/a", {2, 3}), 2);
  last.mutable_session()->set_end(true);
  last.set_want_state(true);
  const v1::PredictResponse answer = Ok(last);
  WaitUntil("its place is free", [this] { return BytesOfStates() == 0; });
  const v1::PredictResponse again = Ok(last);
  EXPECT_EQ(again.logits(), answer.logits());
  EXPECT_EQ(again.state(), answer.state());
  EXPECT_EQ(BytesOfStates(), 0);
}

TEST_F(SessionsTest, ARefusedRequestLeavesTheSession) {
  const std::string first = Ok(Begin("sessions/a", {0})).logits();
  Refused(Request("sessions/a", {5}), StatusCode::INVALID_ARGUMENT, "token");
  v1::PredictRequest two = Request("sessions/a", {});
  *two.mutable_batch() = Tokens({{1}, {2}});
  Refused(two, StatusCode::INVALID_ARGUMENT, "2 sequences");
  v1::PredictRequest state = Request("sessions/a", {1});
  state.set_state(std::string(48, '\0'));
  Refused(state, StatusCode::INVALID_ARGUMENT, "state");
  EXPECT_EQ(first + Ok(Request("sessions/a", {1})).logits(), Offline({0, 1}));
}

TEST_F(SessionsTest, WhatNoSessionCanBeIsRefused) {
  v1::ModelConfig both = TokenConfig();
  both.mutable_blocks(0)->mutable_sru()->set_bidirectional(true);
  CreateModel("both", both);
  Refused(Begin("sessions/a", {0}, "models/both"),
          StatusCode::FAILED_PRECONDITION, "bidirectional");
  Refused(Begin("sessions/a", {0}, "trainers/t"),
          StatusCode::FAILED_PRECONDITION, "trainers/t");
  Refused(Begin("sessions/a", {0}, "models/none"), StatusCode::NOT_FOUND,
          "none");
  Refused(Request("sessions/a", {0}), StatusCode::NOT_FOUND, "sessions/a");
  Refused(Begin("sessions/A", {0}), StatusCode::INVALID_ARGUMENT,
          "session.name");
  Refused(Begin("a", {0}), StatusCode::INVALID_ARGUMENT, "session.name");
  v1::PredictRequest nameless = Begin("", {0});
  Refused(nameless, StatusCode::INVALID_ARGUMENT, "session.name");
}

TEST_F(SessionsTest, GoesOnUnderNamesOfItsVersionAlone) {
  CreateModel("other", TokenConfig());
  Ok(Begin("sessions/a", {0}));
  for (const char* name : {"", "models/lm", "models/lm/versions/1"}) {
    v1::PredictRequest request = Request("sessions/a", {1});
    request.set_model(name);
    Ok(request);
  }
  for (const char* name : {"models/other", "models/lm/versions/2"}) {
    v1::PredictRequest request = Request("sessions/a", {1});
    request.set_model(name);
    Refused(request, StatusCode::FAILED_PRECONDITION, name);
  }
  EXPECT_EQ(PositionOf("sessions/a"), 4);
}

TEST_F(SessionsTest, StaysOnItsVersionWhenTheModelIsDeleted) {
  const std::string offline = Offline({0, 1});
  const std::string first = Ok(Begin("sessions/a", {0})).logits();
  v1::DeleteModelRequest request;
  request.set_name("models/lm");
  google::protobuf::Empty empty;
  ExpectOk(Call(*models, &v1::Models::Stub::DeleteModel, request, &empty));
  EXPECT_EQ(first + Ok(Request("sessions/a", {1})).logits(), offline);
  Refused(Begin("sessions/b", {0}), StatusCode::NOT_FOUND, "lm");
}

// --- The service ---

TEST_F(SessionsTest, CreatesGetsListsAndDeletes) {
  v1::CreateSessionRequest create;
  create.set_model("models/lm");
  for (const char* id : {"c", "a", "b"}) {
    create.set_session_id(id);
    const v1::Session session = Ok(&Stub::CreateSession, create);
    EXPECT_EQ(session.name(), absl::StrCat("sessions/", id));
    EXPECT_EQ(session.model_version(), "models/lm/versions/1");
    EXPECT_EQ(session.position(), 0);
    EXPECT_GT(session.state_bytes(), 0);
    EXPECT_EQ(
        session.expire_time().seconds() - session.last_use_time().seconds(),
        600);
  }
  v1::Session session;
  ExpectError(Call(*sessions, &Stub::CreateSession, create, &session),
              StatusCode::ALREADY_EXISTS, "sessions/b");
  create.clear_session_id();
  EXPECT_TRUE(absl::StartsWith(Ok(&Stub::CreateSession, create).name(),
                               "sessions/session-"));

  EXPECT_EQ(Ok(Request("sessions/a", {0})).logits(), Offline({0}));
  EXPECT_EQ(PositionOf("sessions/a"), 1);

  v1::ListSessionsRequest list;
  list.set_page_size(2);
  list.set_model("models/lm");
  v1::ListSessionsResponse page;
  ExpectOk(Call(*sessions, &Stub::ListSessions, list, &page));
  ASSERT_EQ(page.sessions_size(), 2);
  EXPECT_EQ(page.sessions(1).name(), "sessions/b");
  list.set_page_token(page.next_page_token());
  ExpectOk(Call(*sessions, &Stub::ListSessions, list, &page));
  ASSERT_EQ(page.sessions_size(), 2);
  EXPECT_EQ(page.sessions(0).name(), "sessions/c");
  EXPECT_EQ(page.next_page_token(), "");

  v1::DeleteSessionRequest remove;
  remove.set_name("sessions/a");
  google::protobuf::Empty empty;
  ExpectOk(Call(*sessions, &Stub::DeleteSession, remove, &empty));
  ExpectError(Call(*sessions, &Stub::DeleteSession, remove, &empty),
              StatusCode::NOT_FOUND, "sessions/a");
  ExpectError(Get("sessions/a", &session), StatusCode::NOT_FOUND, "sessions/a");
  ExpectError(Get("models/a", &session), StatusCode::INVALID_ARGUMENT, "name");
}

TEST_F(SessionsTest, ListsThoseOfAModelThatIsThere) {
  CreateModel("other", TokenConfig());
  Ok(Begin("sessions/a", {0}));
  v1::ListSessionsRequest list;
  v1::ListSessionsResponse page;
  const auto count = [&](const char* model) {
    list.set_model(model);
    ExpectOk(Call(*sessions, &Stub::ListSessions, list, &page));
    return page.sessions_size();
  };
  EXPECT_EQ(count(""), 1);
  EXPECT_EQ(count("models/lm"), 1);
  EXPECT_EQ(count("models/lm/versions/1"), 1);
  EXPECT_EQ(count("models/other"), 0);
  EXPECT_EQ(count("models/other/versions/1"), 0);
  for (const char* name : {"models/none", "models/lm/versions/2"}) {
    list.set_model(name);
    ExpectError(Call(*sessions, &Stub::ListSessions, list, &page),
                StatusCode::NOT_FOUND, name);
  }
  for (const char* name : {"lm", "models/lm/aliases/stable"}) {
    list.set_model(name);
    ExpectError(Call(*sessions, &Stub::ListSessions, list, &page),
                StatusCode::INVALID_ARGUMENT, "models/");
  }

  v1::DeleteModelRequest request;
  request.set_name("models/lm");
  google::protobuf::Empty empty;
  ExpectOk(Call(*models, &v1::Models::Stub::DeleteModel, request, &empty));
  EXPECT_EQ(count("models/lm"), 1);
}

TEST_F(SessionsTest, GoesOnListingFromTokensThatItGave) {
  v1::ListSessionsRequest list;
  v1::ListSessionsResponse page;
  for (const char* token : {"a", "sessions/a", "bm9uZQ", "\x01"}) {
    list.set_page_token(token);
    ExpectError(Call(*sessions, &Stub::ListSessions, list, &page),
                StatusCode::INVALID_ARGUMENT, "page_token");
  }
}

TEST_F(SessionsTest, ASnapshotGoesOnAsAnotherSession) {
  const std::string first = Ok(Begin("sessions/a", {0, 1})).logits();
  const v1::SessionSnapshot snapshot = Snapshot("sessions/a");
  EXPECT_EQ(snapshot.position(), 2);
  EXPECT_EQ(snapshot.model_version(), "models/lm/versions/1");
  Ok(Request("sessions/a", {4}));
  const v1::Session restored =
      Ok(&Stub::CreateSession, Restore("b", snapshot.data(), "models/lm"));
  EXPECT_EQ(restored.position(), 2);
  EXPECT_EQ(first + Ok(At(Request("sessions/b", {2}), 2)).logits(),
            Offline({0, 1, 2}));
}

TEST_F(SessionsTest, ASnapshotThatIsDamagedOrDoesNotFitIsRefused) {
  Ok(Begin("sessions/a", {0, 1}));
  const std::string data = Snapshot("sessions/a").data();
  std::string damaged = data;
  damaged[data.size() / 2] ^= 1;
  v1::Session session;
  ExpectError(Call(*sessions, &Stub::CreateSession,
                   Restore("b", damaged, "models/lm"), &session),
              StatusCode::DATA_LOSS, "checksum");
  CreateModel("features", FeatureConfig());
  ExpectError(Call(*sessions, &Stub::CreateSession,
                   Restore("b", data, "models/features"), &session),
              StatusCode::FAILED_PRECONDITION, "shape");
}

// However it was sealed: what it would do comes a row, or a restart, later.
TEST_F(SessionsTest, ASnapshotThatNoSessionCanBeInIsRefused) {
  Ok(Begin("sessions/a", {0, 1}));
  const auto snapshot = ParseSnapshot(Snapshot("sessions/a").data());
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  const auto restore = [&](const SessionSnapshot& changed) {
    v1::Session session;
    return Call(*sessions, &Stub::CreateSession,
                Restore("b", SerializeSnapshot(changed), "models/lm"),
                &session);
  };
  SessionSnapshot far = *snapshot;
  far.position = std::numeric_limits<int64_t>::max();
  ExpectError(restore(far), StatusCode::DATA_LOSS, "position");
  SessionSnapshot infinite = *snapshot;
  infinite.carry.back() = std::numeric_limits<float>::infinity();
  ExpectError(restore(infinite), StatusCode::DATA_LOSS, "infinity");

  far.position = kMaxSessionRows;
  ExpectOk(restore(far));
  Refused(Request("sessions/b", {2}), StatusCode::FAILED_PRECONDITION,
          "the limit is");
  Start();
  EXPECT_EQ(PositionOf("sessions/b"), kMaxSessionRows);
}

TEST_F(SessionsTest, AForkAndItsOriginGoTheirOwnWays) {
  const std::string first = Ok(Begin("sessions/a", {0, 1})).logits();
  v1::ForkSessionRequest fork;
  fork.set_name("sessions/a");
  fork.set_session_id("b");
  EXPECT_EQ(Ok(&Stub::ForkSession, fork).position(), 2);
  EXPECT_EQ(first + Ok(Request("sessions/a", {2})).logits(),
            Offline({0, 1, 2}));
  EXPECT_EQ(first + Ok(Request("sessions/b", {3})).logits(),
            Offline({0, 1, 3}));
}

TEST_F(SessionsTest, MovesToAVersionOfTheSameShape) {
  Ok(Begin("sessions/a", {0, 1}));
  CreateModel("twin", TokenConfig());
  v1::MoveSessionRequest move;
  move.set_name("sessions/a");
  move.set_model_version("models/twin");
  EXPECT_EQ(Ok(&Stub::MoveSession, move).model_version(),
            "models/twin/versions/1");
  v1::PredictRequest request = Request("sessions/a", {2});
  request.set_model("models/twin");
  EXPECT_EQ(Ok(request).position(), 3);
  CreateModel("features", FeatureConfig());
  move.set_model_version("models/features");
  v1::Session session;
  ExpectError(Call(*sessions, &Stub::MoveSession, move, &session),
              StatusCode::FAILED_PRECONDITION, "shape");
}

TEST_F(SessionsTest, EndWhenTheyAreIdleForTooLong) {
  config.set_session_idle_timeout("50ms");
  Start();
  Ok(Begin("sessions/a", {0}));
  WaitUntil("the session has ended",
            [this] { return PositionOf("sessions/a") == -1; });
  Refused(Request("sessions/a", {1}), StatusCode::NOT_FOUND, "idle");
}

TEST_F(SessionsTest, AreHeldWithinTheLimit) {
  config.set_max_sessions(1);
  Start();
  Ok(Begin("sessions/a", {0}));
  Refused(Begin("sessions/b", {0}), StatusCode::RESOURCE_EXHAUSTED,
          "1 sessions");
}

TEST_F(SessionsTest, ComeBackAfterARestart) {
  const std::string first = Ok(Begin("sessions/a", {0, 1})).logits();
  Ok(Begin("sessions/b", {4}));
  Start();
  EXPECT_EQ(PositionOf("sessions/a"), 2);
  EXPECT_EQ(first + Ok(At(Request("sessions/a", {2}), 2)).logits(),
            Offline({0, 1, 2}));
  EXPECT_FALSE(std::filesystem::exists(config.data_dir() + "/sessions"));
}

TEST_F(SessionsTest, ADamagedByteCostsOneSessionAndNotTheStart) {
  Ok(Begin("sessions/a", {0}));
  Ok(Begin("sessions/b", {0}));
  Stop();
  {
    std::fstream file(config.data_dir() + "/sessions/1.sessions",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(150);
    file.put('!');
  }
  Start();
  // Written is whose state came first from its device.
  const int64_t a = PositionOf("sessions/a"), b = PositionOf("sessions/b");
  EXPECT_EQ(std::min(a, b), -1);
  EXPECT_EQ(std::max(a, b), 1);
}

// --- Streams ---

class PredictStreamTest : public SessionsTest {
 protected:
  using Stream =
      grpc::ClientReaderWriter<v1::PredictRequest, v1::PredictStreamResponse>;

  PredictStreamTest() { Open(); }

  void Open() {
    stream_.reset();
    context_ = std::make_unique<grpc::ClientContext>();
    SetDeadline(*context_);
    stream_ = inference->PredictStream(context_.get());
  }
  void Write(const v1::PredictRequest& request) {
    EXPECT_TRUE(stream_->Write(request));
  }
  v1::PredictStreamResponse Read() {
    v1::PredictStreamResponse response;
    EXPECT_TRUE(stream_->Read(&response));
    return response;
  }
  std::string ReadLogits() {
    const v1::PredictStreamResponse response = Read();
    EXPECT_EQ(response.status().code(), 0) << response.status().message();
    return response.response().logits();
  }
  grpc::Status End() {
    stream_->WritesDone();
    v1::PredictStreamResponse response;
    EXPECT_FALSE(stream_->Read(&response));
    return stream_->Finish();
  }

  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(PredictStreamTest, ManyChunksAreOneRunInOrder) {
  std::vector<int32_t> tokens;
  Write(Begin("sessions/a", {0}));
  tokens.push_back(0);
  for (int i = 1; i < 200; ++i) {
    Write(Request("sessions/a", {i % 5, (i / 5) % 5}));
    tokens.push_back(i % 5);
    tokens.push_back((i / 5) % 5);
    if (i >= 32) ReadLogits();
  }
  for (int i = 0; i < 32; ++i) ReadLogits();
  v1::PredictRequest last = Request("sessions/a", {1});
  last.mutable_session()->set_end(true);
  Write(last);
  tokens.push_back(1);
  const std::string end = ReadLogits();
  const std::string offline = Offline(tokens);
  // Five numbers a row.
  EXPECT_EQ(end, offline.substr(offline.size() - 20));
  ExpectOk(End());
}

TEST_F(PredictStreamTest, RequestsInheritModelAndSession) {
  v1::PredictRequest request = Begin("sessions/a", {0});
  Write(request);
  request = Request("", {1});
  request.mutable_session();  // the one before's
  Write(request);
  Write(Request("", {0, 1}));  // none, on the model before
  const std::string first = ReadLogits();
  EXPECT_EQ(first + ReadLogits(), Offline({0, 1}));
  EXPECT_EQ(ReadLogits(), Offline({0, 1}));
  ExpectOk(End());
}

TEST_F(PredictStreamTest, AnErrorIsInItsReplyAndTheStreamGoesOn) {
  Write(Begin("sessions/a", {0}));
  v1::PredictRequest wrong = Request("sessions/a", {1});
  wrong.set_top_k(6);
  Write(wrong);
  Write(Request("sessions/none", {0}));
  Write(Request("sessions/a", {1}));
  const std::string first = ReadLogits();
  const v1::PredictStreamResponse bad = Read();
  EXPECT_EQ(bad.status().code(), StatusCode::INVALID_ARGUMENT);
  EXPECT_FALSE(bad.has_response());
  ASSERT_EQ(bad.status().details_size(), 1);  // google.rpc.BadRequest
  EXPECT_EQ(Read().status().code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(first + ReadLogits(), Offline({0, 1}));
  ExpectOk(End());
}

TEST_F(PredictStreamTest, AClientThatHasSentAllGetsItsAnswers) {
  for (int i = 0; i < 20; ++i) {
    Write(Begin(absl::StrCat("sessions/s", i), {i % 5}));
  }
  stream_->WritesDone();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ReadLogits(), Offline({i % 5}));
  v1::PredictStreamResponse response;
  EXPECT_FALSE(stream_->Read(&response));
  ExpectOk(stream_->Finish());
}

TEST_F(PredictStreamTest, AClientThatClosesInTheMiddleLeavesSessionsWhole) {
  for (int round = 0; round < 20; ++round) {
    Write(Begin("sessions/a", {0}));
    for (int i = 0; i < 10; ++i) Write(Request("sessions/a", {1, 2}));
    context_->TryCancel();
    context_->TryCancel();
    v1::PredictStreamResponse response;
    while (stream_->Read(&response)) {
    }
    EXPECT_EQ(stream_->Finish().error_code(), StatusCode::CANCELLED);
    Open();
  }
  // Whatever was applied, and when, it is a number of whole requests.
  ExpectOk(End());
  int64_t position = 0;
  v1::PredictResponse response;
  WaitUntil("nothing of the session is under way", [&] {
    position = PositionOf("sessions/a");
    return position == -1 ||
           Predict(At(Request("sessions/a", {3}), position), &response).ok();
  });
  if (position == -1) return;
  EXPECT_EQ(position % 2, 1) << position;
  std::vector<int32_t> tokens = {0};
  for (int64_t i = 1; i < position; i += 2) {
    tokens.insert(tokens.end(), {1, 2});
  }
  tokens.push_back(3);
  const std::string offline = Offline(tokens);
  EXPECT_EQ(response.logits(), offline.substr(offline.size() - 20));
}

TEST_F(PredictStreamTest, ADeadlineOfAMillisecondHurtsNobody) {
  Ok(Begin("sessions/a", {0}));
  for (int round = 0; round < 20; ++round) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(1));
    auto stream = inference->PredictStream(&context);
    for (int i = 0; i < 5; ++i) {
      if (!stream->Write(Request("sessions/a", {1}))) break;
    }
    v1::PredictStreamResponse response;
    while (stream->Read(&response)) {
    }
    EXPECT_EQ(stream->Finish().error_code(), StatusCode::DEADLINE_EXCEEDED);
  }
  WaitUntil("nothing of the session is under way", [this] {
    const int64_t before = PositionOf("sessions/a");
    v1::PredictResponse response;
    return Predict(At(Request("sessions/a", {2}), before), &response).ok();
  });
}

TEST_F(PredictStreamTest, AServerThatStopsEndsAStreamThatWaits) {
  Write(Begin("sessions/a", {0}));
  ReadLogits();
  const auto begin = std::chrono::steady_clock::now();
  server_->Drain(absl::Seconds(60));
  v1::PredictStreamResponse response;
  EXPECT_FALSE(stream_->Read(&response));
  EXPECT_EQ(stream_->Finish().error_code(), StatusCode::UNAVAILABLE);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(50));
}

TEST_F(PredictStreamTest, TooManyAreRefused) {
  config.set_max_streams(1);
  Start();
  Open();
  Write(Begin("sessions/a", {0}));
  ReadLogits();
  grpc::ClientContext context;
  SetDeadline(context);
  auto second = inference->PredictStream(&context);
  v1::PredictStreamResponse response;
  EXPECT_FALSE(second->Read(&response));
  EXPECT_EQ(second->Finish().error_code(), StatusCode::RESOURCE_EXHAUSTED);
  ExpectOk(End());
}

}  // namespace
}  // namespace recurve::server
