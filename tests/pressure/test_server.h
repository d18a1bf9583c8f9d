// A server of its own process, what tests put on it and ask of it.
#ifndef RECURVE_TESTS_PRESSURE_TEST_SERVER_H_
#define RECURVE_TESTS_PRESSURE_TEST_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/client.h"
#include "proto/recurve/v1/compute.pb.h"
#include "proto/recurve/v1/model.grpc.pb.h"
#include "proto/recurve/v1/model_config.pb.h"
#include "tests/faults/server_process.h"
#include "tests/pressure/connection.h"

namespace recurve::pressure {

inline constexpr int kVocabulary = 16;

// Tokens in, kVocabulary logits a step out, of two SRU layers.
v1::ModelConfig TokenModel(int hidden_size);

// Of one sequence, for logits.
v1::PredictRequest PredictionOf(const std::string& model,
                                const std::vector<int32_t>& tokens);
std::vector<float> FloatsOf(const std::string& bytes);

// Its methods expect success by gtest's expectations.
class TestServer {
 public:
  TestServer(const std::string& devices, const std::vector<std::string>& flags);

  // Stops it as SIGTERM does and starts it again on the same data: another
  // address, and what address(), client() and the like gave is no more.
  void Restart();

  faults::ServerProcess& process() { return *process_; }
  const std::string& address() const { return address_; }
  Client& client() { return *client_; }
  // That nobody cuts.
  Connection& connection() { return *connection_; }
  v1::Models::Stub& models() { return *models_; }

  void CreateModel(const std::string& id, const v1::ModelConfig& config,
                   uint64_t seed);
  // The weights of models/`from` as the next version of models/`to`, which has
  // the same config.
  void Publish(const std::string& from, const std::string& to);
  // Logits of a prediction without session or deadline.
  std::vector<float> Predict(const std::string& model,
                             const std::vector<int32_t>& tokens);
  std::vector<v1::Device> Devices();
  // On each device.
  std::vector<int64_t> ReservedBytes();
  // Of all devices so far.
  int64_t Rows();

 private:
  void Start();

  const std::string devices_;
  const std::vector<std::string> flags_;
  faults::Folder folder_;
  std::unique_ptr<faults::ServerProcess> process_;
  std::string address_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<v1::Models::Stub> models_;
};

}  // namespace recurve::pressure

#endif  // RECURVE_TESTS_PRESSURE_TEST_SERVER_H_
