// Loads a server with predictions of a token model and prints what came of it
// as a line of JSON: load_generator --help.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/support/slice.h"
#include "proto/inference/inference.pb.h"
#include "proto/recurve/v1/compute.pb.h"
#include "proto/recurve/v1/sessions.grpc.pb.h"
#include "tests/benchmarks/serving/load.h"
#include "tests/benchmarks/serving/mix.h"

ABSL_FLAG(std::string, server, "127.0.0.1:50051", "HOST:PORT");
ABSL_FLAG(std::string, model, "benchmark", "its id");
ABSL_FLAG(
    std::string, protocol, "recurve",
    "recurve; kserve, with one input `tokens` INT32 [1, T]; or none, calls "
    "that ask nothing (ServerLive)");
ABSL_FLAG(int, min_length, 64, "of a sequence");
ABSL_FLAG(int, max_length, 64, "lengths are log-uniform between both");
ABSL_FLAG(int, vocabulary_size, 256, "tokens are below");
ABSL_FLAG(int, sequences, 512, "different requests");
ABSL_FLAG(bool, sessions, false,
          "each client goes on with a session of its own");
ABSL_FLAG(int, clients, 64, "each with one request at a time");
ABSL_FLAG(double, rate, 0,
          "requests a second at random times instead of clients");
ABSL_FLAG(int, connections, 64, "that the requests are spread over");
ABSL_FLAG(absl::Duration, deadline, absl::InfiniteDuration(),
          "of each request");
ABSL_FLAG(absl::Duration, warm_up, absl::Seconds(1), "before it counts");
ABSL_FLAG(absl::Duration, duration, absl::Seconds(5), "that counts");

namespace recurve::serving {
namespace {

std::string ModelName() {
  return absl::StrCat("models/", absl::GetFlag(FLAGS_model));
}

grpc::ByteBuffer Encode(const google::protobuf::Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

constexpr char kPredict[] = "/recurve.v1.Inference/Predict";
constexpr char kModelInfer[] = "/inference.GRPCInferenceService/ModelInfer";
constexpr char kServerLive[] = "/inference.GRPCInferenceService/ServerLive";

v1::PredictRequest PredictRequest(const std::vector<int32_t>& tokens) {
  v1::PredictRequest request;
  request.set_model(ModelName());
  auto& batch = *request.mutable_batch();
  batch.add_cu_seqlens(0);
  batch.add_cu_seqlens(static_cast<int64_t>(tokens.size()));
  batch.mutable_tokens()->Add(tokens.begin(), tokens.end());
  request.set_want_logits(true);
  return request;
}

inference::ModelInferRequest ModelInferRequest(
    const std::vector<int32_t>& tokens) {
  inference::ModelInferRequest request;
  request.set_model_name(absl::GetFlag(FLAGS_model));
  auto& input = *request.add_inputs();
  input.set_name("tokens");
  input.set_datatype("INT32");
  input.add_shape(1);
  input.add_shape(static_cast<int64_t>(tokens.size()));
  request.add_raw_input_contents(tokens.data(),
                                 sizeof(int32_t) * tokens.size());
  return request;
}

// A session of its own for each client, from zeros. Ends the program where the
// server makes none.
std::vector<std::string> CreateSessions(const std::string& server, int count) {
  const auto stub = v1::Sessions::NewStub(
      grpc::CreateChannel(server, grpc::InsecureChannelCredentials()));
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    v1::CreateSessionRequest request;
    request.set_model(ModelName());
    grpc::ClientContext context;
    v1::Session session;
    const grpc::Status status =
        stub->CreateSession(&context, request, &session);
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", status.error_message().c_str());
      std::exit(1);
    }
    names.push_back(session.name());
  }
  return names;
}

std::string MethodOf(const std::string& protocol) {
  if (protocol == "recurve") return kPredict;
  if (protocol == "kserve") return kModelInfer;
  if (protocol == "none") return kServerLive;
  std::fprintf(stderr, "--protocol: no such one: %s\n", protocol.c_str());
  std::exit(1);
}

std::vector<LoadRequest> Requests(const Mix& mix, const std::string& method,
                                  const std::vector<std::string>& sessions) {
  std::vector<LoadRequest> requests;
  for (size_t i = 0; i < std::max(mix.size(), sessions.size()); ++i) {
    const std::vector<int32_t>& tokens = mix[i % mix.size()];
    LoadRequest request;
    request.rows = static_cast<int64_t>(tokens.size());
    if (method == kServerLive) {
      request.message = Encode(inference::ServerLiveRequest());
    } else if (method == kModelInfer) {
      request.message = Encode(ModelInferRequest(tokens));
    } else {
      v1::PredictRequest wire = PredictRequest(tokens);
      if (!sessions.empty()) {
        wire.mutable_session()->set_name(sessions[i % sessions.size()]);
      }
      request.message = Encode(wire);
    }
    requests.push_back(std::move(request));
  }
  return requests;
}

LoadOptions OptionsOfFlags() {
  MixOptions mix;
  mix.count = absl::GetFlag(FLAGS_sequences);
  mix.min_length = absl::GetFlag(FLAGS_min_length);
  mix.max_length = absl::GetFlag(FLAGS_max_length);
  mix.vocabulary_size = absl::GetFlag(FLAGS_vocabulary_size);
  LoadOptions options;
  options.server = absl::GetFlag(FLAGS_server);
  options.method = MethodOf(absl::GetFlag(FLAGS_protocol));
  options.clients = absl::GetFlag(FLAGS_clients);
  options.keep_request = absl::GetFlag(FLAGS_sessions);
  std::vector<std::string> sessions;
  if (options.keep_request) {
    sessions = CreateSessions(options.server, options.clients);
  }
  options.requests = Requests(MakeMix(mix), options.method, sessions);
  options.rate = absl::GetFlag(FLAGS_rate);
  options.connections = absl::GetFlag(FLAGS_connections);
  options.deadline = absl::GetFlag(FLAGS_deadline);
  options.warm_up = absl::GetFlag(FLAGS_warm_up);
  options.duration = absl::GetFlag(FLAGS_duration);
  return options;
}

}  // namespace
}  // namespace recurve::serving

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Predictions of a token model, from one thread; prints a line of JSON.");
  absl::ParseCommandLine(argc, argv);
  const auto report =
      recurve::serving::RunLoad(recurve::serving::OptionsOfFlags());
  std::printf("%s\n", report.ToJson().dump().c_str());
  return report.answered.Summary()["count"] > 0 ? 0 : 1;
}
