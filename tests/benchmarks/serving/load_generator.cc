// Loads a server with predictions of a token model and prints what came of it
// as a line of JSON: load_generator --help.
#include <cstdio>
#include <limits>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/time/time.h"
#include "grpcpp/support/slice.h"
#include "proto/recurve/v1/compute.pb.h"
#include "tests/benchmarks/serving/load.h"
#include "tests/benchmarks/serving/mix.h"

ABSL_FLAG(std::string, server, "127.0.0.1:50051", "HOST:PORT");
ABSL_FLAG(std::string, model, "models/benchmark", "as PredictRequest's");
ABSL_FLAG(int, min_length, 64, "of a sequence");
ABSL_FLAG(int, max_length, 64, "lengths are log-uniform between both");
ABSL_FLAG(int, vocabulary_size, 256, "tokens are below");
ABSL_FLAG(int, sequences, 512, "different requests");
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

grpc::ByteBuffer Encode(const google::protobuf::Message& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

LoadRequest ToRequest(const std::vector<int32_t>& tokens) {
  v1::PredictRequest request;
  request.set_model(absl::GetFlag(FLAGS_model));
  auto& batch = *request.mutable_batch();
  batch.add_cu_seqlens(0);
  batch.add_cu_seqlens(static_cast<int64_t>(tokens.size()));
  batch.mutable_tokens()->Add(tokens.begin(), tokens.end());
  request.set_want_logits(true);
  return {Encode(request), static_cast<int64_t>(tokens.size())};
}

LoadOptions OptionsOfFlags() {
  MixOptions mix;
  mix.count = absl::GetFlag(FLAGS_sequences);
  mix.min_length = absl::GetFlag(FLAGS_min_length);
  mix.max_length = absl::GetFlag(FLAGS_max_length);
  mix.vocabulary_size = absl::GetFlag(FLAGS_vocabulary_size);
  LoadOptions options;
  options.server = absl::GetFlag(FLAGS_server);
  options.method = "/recurve.v1.Inference/Predict";
  for (const std::vector<int32_t>& tokens : MakeMix(mix)) {
    options.requests.push_back(ToRequest(tokens));
  }
  options.clients = absl::GetFlag(FLAGS_clients);
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
