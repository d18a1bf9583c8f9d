#include "tests/pressure/streamer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "grpcpp/grpcpp.h"
#include "tests/pressure/refusal.h"
#include "tests/pressure/test_server.h"

namespace recurve::pressure {
namespace {

using Kind = Operation::Kind;
using Outcome = Operation::Outcome;

constexpr float kTolerance = 1e-5F;
constexpr int64_t kMaxChunkRows = 8;
constexpr int kMaxTries = 1000;

std::string Describe(const grpc::Status& status) {
  return absl::StrCat("code ", status.error_code(), ": ",
                      status.error_message());
}

// What a client does that has been refused.
void ComeBackLater(const grpc::Status& status) {
  absl::SleepFor(std::clamp(RetryDelay(status).value_or(absl::Milliseconds(20)),
                            absl::Milliseconds(1), absl::Milliseconds(500)));
}

Operation OfPosition(int64_t position, Outcome outcome) {
  Operation operation;
  operation.kind = Kind::kPosition;
  operation.position = position;
  operation.outcome = outcome;
  return operation;
}

}  // namespace

Streamer::Streamer(const World& world, int index, uint64_t seed)
    : world_(world), index_(index), draw_(seed) {}

Streamer::~Streamer() { CloseStream(/*cancel=*/false); }

void Streamer::LiveOnce() {
  position_ = 0;
  unsure_ = over_ = false;
  history_.reset();
  if (!Start()) return;
  for (int64_t steps = draw_.Between(5, 30); steps > 0 && !over_; --steps) {
    Step();
  }
  End();
  ended_.push_back(session_);
  Check();
}

void Streamer::ForgetEnded() {
  for (const std::string& name : ended_) Forget(name);
  ended_.clear();
}

bool Streamer::Start() {
  for (int i = 0; i < kMaxTries; ++i) {
    session_ = NewName();
    Operation operation = NewChunk();
    v1::PredictRequest request = ToWire(operation);
    request.set_model(
        world_.models[draw_.Between(0, world_.models.size() - 1)]);
    request.mutable_session()->set_start(true);
    Reply reply = draw_.OneIn(2) ? CallUnary(request, absl::InfiniteDuration())
                                 : CallOnStream(request);
    if (reply.status.ok()) {
      history_ =
          std::make_unique<SessionHistory>(reply.response.model_version());
      Done(std::move(operation), std::move(reply), false);
      return true;
    }
    if (reply.status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
      world_.record.Count("start refused");
      ComeBackLater(reply.status);
    } else if (!connection_->is_cut()) {
      Fail("start: " + Describe(reply.status));
      return false;
    }
  }
  Fail("it could not be started");
  return false;
}

void Streamer::Step() {
  if (unsure_) return draw_.OneIn(2) ? Again() : AskPosition();
  const int64_t choice = draw_.Between(1, 1000);
  if (choice <= 600) return Burst(1);
  if (choice <= 680) return Burst(draw_.Between(2, 4));
  if (choice <= 750) return Unary();
  if (choice <= 810) return Hurried();
  if (choice <= 850) return Cancelled();
  if (choice <= 890) return Again();
  if (choice <= 920) return AskPosition();
  if (choice <= 945) return Restore();
  if (choice <= 970) return Fork();
  if (choice <= 996) return Move();
  CutOff();
}

void Streamer::End() {
  for (int i = 0; i < kMaxTries && !over_; ++i) {
    if (unsure_) {
      AskPosition();
      continue;
    }
    Operation operation = NewChunk();
    operation.end = true;
    Send(std::move(operation), absl::InfiniteDuration());
  }
  if (!over_) Fail("it could not be ended");
}

void Streamer::Check() {
  const absl::Status status = history_->Check(
      [this](const std::vector<Segment>& segments) {
        return Offline(segments);
      },
      kTolerance);
  if (!status.ok()) Fail(std::string(status.message()));
  world_.record.Count("session checked");
}

// --- What can happen ---

void Streamer::Unary() { Send(NewChunk(), absl::InfiniteDuration()); }

void Streamer::Hurried() {
  Send(NewChunk(), absl::Microseconds(draw_.Between(200, 5000)));
}

void Streamer::Burst(int64_t requests) { ReadReplies(WriteChunks(requests)); }

void Streamer::Cancelled() {
  std::vector<Operation> written = WriteChunks(draw_.Between(1, 3));
  absl::SleepFor(absl::Microseconds(draw_.Between(0, 3000)));
  stream_context_->TryCancel();
  world_.record.Count("stream cancelled");
  ReadReplies(std::move(written));
}

void Streamer::CutOff() {
  std::vector<Operation> written = WriteChunks(draw_.Between(1, 3));
  absl::SleepFor(absl::Microseconds(draw_.Between(0, 3000)));
  connection_->Cut();
  world_.record.Count("connection cut");
  ReadReplies(std::move(written));
}

void Streamer::Again() {
  const std::vector<Operation>& all = history_->operations();
  const auto last = std::find_if(all.rbegin(), all.rend(), [](const auto& o) {
    return o.kind == Kind::kPredict;
  });
  if (last == all.rend() || last->end) return AskPosition();
  Operation operation = *last;
  operation.outputs.clear();
  world_.record.Count("made again");
  Send(std::move(operation), absl::InfiniteDuration());
}

void Streamer::AskPosition() {
  grpc::ClientContext context;
  v1::GetSessionRequest request;
  request.set_name(session_);
  v1::Session session;
  const grpc::Status status =
      world_.control.sessions().GetSession(&context, request, &session);
  if (status.ok()) {
    position_ = session.position();
    unsure_ = false;
    return history_->Add(OfPosition(position_, Outcome::kDone));
  }
  over_ = true;
  if (status.error_code() == grpc::StatusCode::NOT_FOUND) {
    return history_->Add(OfPosition(position_, Outcome::kNotFound));
  }
  Fail("GetSession: " + Describe(status));
}

void Streamer::Restore() {
  v1::SessionSnapshot snapshot;
  {
    grpc::ClientContext context;
    v1::SnapshotSessionRequest request;
    request.set_name(session_);
    const grpc::Status status =
        world_.control.sessions().SnapshotSession(&context, request, &snapshot);
    if (!status.ok()) return Fail("snapshot: " + Describe(status));
  }
  const std::string name = NewName();
  grpc::ClientContext context;
  v1::CreateSessionRequest request;
  request.set_session_id(name.substr(name.find('/') + 1));
  request.set_model(snapshot.model_version());
  request.set_snapshot(snapshot.data());
  v1::Session session;
  const grpc::Status status =
      world_.control.sessions().CreateSession(&context, request, &session);
  if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
    world_.record.Count("restore refused");
    return;
  }
  if (!status.ok()) return Fail("restore: " + Describe(status));
  if (session.position() != snapshot.position()) {
    Fail(absl::StrCat("restored at ", session.position(),
                      ", its snapshot was at ", snapshot.position()));
  }
  world_.record.Count("restored");
  GoOnAs(name, snapshot.position());
}

void Streamer::Fork() {
  const std::string name = NewName();
  grpc::ClientContext context;
  v1::ForkSessionRequest request;
  request.set_name(session_);
  request.set_session_id(name.substr(name.find('/') + 1));
  v1::Session session;
  const grpc::Status status =
      world_.control.sessions().ForkSession(&context, request, &session);
  if (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) {
    world_.record.Count("fork refused");
    return;
  }
  if (!status.ok()) return Fail("fork: " + Describe(status));
  world_.record.Count("forked");
  GoOnAs(name, session.position());
}

void Streamer::Move() {
  grpc::ClientContext context;
  v1::MoveSessionRequest request;
  request.set_name(session_);
  request.set_model_version(
      world_.versions[draw_.Between(0, world_.versions.size() - 1)]);
  v1::Session session;
  const grpc::Status status =
      world_.control.sessions().MoveSession(&context, request, &session);
  if (!status.ok()) return Fail("move: " + Describe(status));
  Operation operation;
  operation.kind = Kind::kMove;
  operation.version = session.model_version();
  history_->Add(std::move(operation));
  world_.record.Count("moved");
}

// The session that was is left behind, deleted or not.
void Streamer::GoOnAs(const std::string& name, int64_t position) {
  history_->Add(OfPosition(position, Outcome::kDone));
  Check();
  auto states = history_->PossibleStates();
  if (!states.ok()) states.emplace();
  states->erase(std::remove_if(states->begin(), states->end(),
                               [&](const SessionState& state) {
                                 return state.ended ||
                                        state.position != position;
                               }),
                states->end());
  history_ = std::make_unique<SessionHistory>(*std::move(states));
  if (draw_.OneIn(2)) {
    grpc::ClientContext context;
    v1::DeleteSessionRequest request;
    request.set_name(session_);
    google::protobuf::Empty empty;
    const grpc::Status status =
        world_.control.sessions().DeleteSession(&context, request, &empty);
    if (!status.ok()) Fail("delete: " + Describe(status));
  }
  session_ = name;
  position_ = position;
  unsure_ = false;
}

// --- Requests ---

Operation Streamer::NewChunk() {
  Operation operation;
  operation.position = position_;
  operation.tokens.resize(draw_.Between(1, kMaxChunkRows));
  for (int32_t& token : operation.tokens) {
    token = static_cast<int32_t>(draw_.Between(0, world_.vocabulary_size - 1));
  }
  return operation;
}

v1::PredictRequest Streamer::ToWire(const Operation& operation) const {
  v1::PredictRequest request = PredictionOf("", operation.tokens);
  v1::SessionUse& session = *request.mutable_session();
  session.set_name(session_);
  session.set_position(operation.position);
  session.set_end(operation.end);
  return request;
}

Streamer::Reply Streamer::CallUnary(const v1::PredictRequest& request,
                                    absl::Duration deadline) {
  OpenStream();  // which looks after the connection
  grpc::ClientContext context;
  if (deadline != absl::InfiniteDuration()) {
    context.set_deadline(absl::ToChronoTime(absl::Now() + deadline));
  }
  Reply reply;
  reply.status =
      connection_->inference().Predict(&context, request, &reply.response);
  return reply;
}

grpc::Status Streamer::CallPatiently(const v1::PredictRequest& request,
                                     v1::PredictResponse* response) {
  grpc::Status status;
  for (int i = 0; i < kMaxTries; ++i) {
    grpc::ClientContext context;
    status = world_.control.inference().Predict(&context, request, response);
    if (status.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED) break;
    ComeBackLater(status);
  }
  return status;
}

Streamer::Reply Streamer::CallOnStream(const v1::PredictRequest& request) {
  OpenStream();
  v1::PredictStreamResponse response;
  if (!stream_->Write(request) || !stream_->Read(&response)) {
    return {CloseStream(/*cancel=*/false), {}};
  }
  return {StatusOf(response.status()), std::move(*response.mutable_response())};
}

void Streamer::Send(Operation operation, absl::Duration deadline) {
  Reply reply = CallUnary(ToWire(operation), deadline);
  Done(std::move(operation), std::move(reply),
       deadline != absl::InfiniteDuration());
}

void Streamer::Done(Operation operation, Reply reply, bool may_be_unknown) {
  switch (reply.status.error_code()) {
    case grpc::StatusCode::OK:
      operation.outcome = Outcome::kDone;
      operation.reply_position = reply.response.position();
      operation.outputs = FloatsOf(reply.response.logits());
      position_ = operation.reply_position;
      unsure_ = false;
      over_ = operation.end;
      break;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      operation.outcome = Outcome::kRefused;
      position_ = operation.position;
      ComeBackLater(reply.status);
      break;
    case grpc::StatusCode::FAILED_PRECONDITION:
      operation.outcome = Outcome::kWrongPosition;
      unsure_ = true;
      break;
    case grpc::StatusCode::NOT_FOUND:
      operation.outcome = Outcome::kNotFound;
      over_ = true;
      break;
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::DEADLINE_EXCEEDED:
    case grpc::StatusCode::UNAVAILABLE:
      if (may_be_unknown || connection_->is_cut()) {
        operation.outcome = Outcome::kUnknown;
        unsure_ = true;
        break;
      }
      [[fallthrough]];
    default:
      over_ = true;
      return Fail("a prediction: " + Describe(reply.status));
  }
  static constexpr const char* kOutcomes[] = {
      "prediction done", "prediction refused", "prediction at wrong position",
      "prediction not found", "prediction unknown"};
  world_.record.Count(kOutcomes[static_cast<int>(operation.outcome)]);
  history_->Add(std::move(operation));
}

// --- The stream ---

void Streamer::OpenStream() {
  if (connection_ != nullptr && connection_->is_cut()) {
    CloseStream(/*cancel=*/true);
    connection_.reset();
  }
  if (connection_ == nullptr) connection_ = world_.connections.Get(index_);
  if (stream_ != nullptr) return;
  stream_context_ = std::make_unique<grpc::ClientContext>();
  stream_ = connection_->inference().PredictStream(stream_context_.get());
}

grpc::Status Streamer::CloseStream(bool cancel) {
  if (stream_ == nullptr) return grpc::Status::OK;
  if (cancel) stream_context_->TryCancel();
  stream_->WritesDone();
  v1::PredictStreamResponse response;
  while (stream_->Read(&response)) {
  }
  grpc::Status status = stream_->Finish();
  stream_.reset();
  return status;
}

std::vector<Operation> Streamer::WriteChunks(int64_t count) {
  OpenStream();
  std::vector<Operation> written;
  for (; count > 0; --count) {
    written.push_back(NewChunk());
    position_ += static_cast<int64_t>(written.back().tokens.size());
    if (!stream_->Write(ToWire(written.back()))) break;
  }
  return written;
}

void Streamer::ReadReplies(std::vector<Operation> written) {
  const int64_t sent_to = position_;
  size_t read = 0;
  v1::PredictStreamResponse response;
  while (read < written.size() && stream_->Read(&response)) {
    Done(std::move(written[read++]),
         {StatusOf(response.status()), std::move(*response.mutable_response())},
         /*may_be_unknown=*/true);
  }
  if (read == written.size()) return;
  const grpc::Status status = CloseStream(/*cancel=*/false);
  position_ = sent_to;
  for (; read < written.size(); ++read) {
    Done(std::move(written[read]), {status, {}}, /*may_be_unknown=*/true);
  }
}

// --- What it should have been ---

absl::StatusOr<std::vector<float>> Streamer::Offline(
    const std::vector<Segment>& segments) {
  std::vector<float> outputs;
  std::string state;
  for (const Segment& segment : segments) {
    if (segment.tokens.empty()) continue;
    v1::PredictRequest request = PredictionOf(segment.version, segment.tokens);
    request.set_state(state);
    request.set_want_state(true);
    v1::PredictResponse response;
    const grpc::Status status = CallPatiently(request, &response);
    if (!status.ok()) {
      return absl::InternalError("offline: " + Describe(status));
    }
    state = response.state();
    const std::vector<float> part = FloatsOf(response.logits());
    outputs.insert(outputs.end(), part.begin(), part.end());
  }
  return outputs;
}

void Streamer::Forget(const std::string& name) {
  v1::PredictRequest request = PredictionOf(world_.models[0], {0});
  request.mutable_session()->set_name(name);
  request.mutable_session()->set_start(true);
  request.mutable_session()->set_end(true);
  v1::PredictResponse response;
  const grpc::Status status = CallPatiently(request, &response);
  if (!status.ok()) Fail("forget: " + Describe(status));
}

void Streamer::Fail(const std::string& what) {
  over_ = true;
  world_.record.Fail(absl::StrCat(session_, " at ", position_, ": ", what));
}

std::string Streamer::NewName() {
  return absl::StrCat("sessions/s-", index_, "-", names_++);
}

}  // namespace recurve::pressure
