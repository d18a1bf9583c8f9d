// A server on a local port for tests of its services, and what tests send it.
#ifndef RECURVE_SERVER_SERVICES_SERVICE_TEST_UTIL_H_
#define RECURVE_SERVER_SERVICES_SERVICE_TEST_UTIL_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"
#include "gtest/gtest.h"
#include "proto/recurve/v1/compute.grpc.pb.h"
#include "proto/recurve/v1/data.grpc.pb.h"
#include "proto/recurve/v1/devices.grpc.pb.h"
#include "proto/recurve/v1/jobs.grpc.pb.h"
#include "proto/recurve/v1/model.grpc.pb.h"
#include "proto/recurve/v1/sessions.grpc.pb.h"
#include "server/config.pb.h"
#include "server/server.h"

namespace recurve::server {

// For what is sure to come, however slow the machine.
inline constexpr absl::Duration kPatience = absl::Minutes(4);

// Next-token prediction over 5 tokens.
v1::ModelConfig TokenConfig();
// Rows of 2 numbers in, 3 classes a step out.
v1::ModelConfig FeatureConfig();
v1::TrainerConfig SgdConfig();

v1::SequenceBatch Tokens(const std::vector<std::vector<int32_t>>& sequences);
v1::SequenceBatch Features(const std::vector<float>& features,
                           int64_t feature_size);

class ServiceTest : public testing::Test {
 protected:
  // A folder of its own, emptied, with two devices of one thread.
  ServiceTest();
  ~ServiceTest() override;

  // Starts the server, again if need be, with `config` as it then is.
  void Start();
  void Stop() { server_.reset(); }

  // Expects success.
  v1::ModelVersion CreateModel(const std::string& id,
                               const v1::ModelConfig& config);
  v1::Dataset Upload(const std::string& id, const std::string& bytes);

  // An upload whose header may say another size than the bytes have. `stop`
  // leaves the call after that many bytes without a word.
  grpc::Status TryUpload(const v1::UploadDatasetRequest::Header& header,
                         absl::string_view bytes, v1::Dataset* dataset);

  // Done by all devices so far.
  int64_t Rows();
  // Until a device has done rows of whatever was asked for.
  void WaitForRows();

  // Asks again and again until it is so.
  static void WaitUntil(absl::string_view what,
                        const std::function<bool()>& is_so);

  // Every regular file under data_dir but the lock and the job records.
  std::vector<std::string> FilesOnDisk() const;

  ServerConfig config;
  const std::string directory;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Models::Stub> models;
  std::unique_ptr<v1::Datasets::Stub> datasets;
  std::unique_ptr<v1::Inference::Stub> inference;
  std::unique_ptr<v1::Sessions::Stub> sessions;
  std::unique_ptr<v1::Trainers::Stub> trainers;
  std::unique_ptr<v1::Jobs::Stub> jobs;
  std::unique_ptr<v1::Devices::Stub> devices;
  std::unique_ptr<Server> server_;
};

// Of a call that is sure to end.
void SetDeadline(grpc::ClientContext& context);

// Calls `(stub->*method)` with such a deadline.
template <typename Stub, typename Request, typename Response>
grpc::Status Call(Stub& stub,
                  grpc::Status (Stub::*method)(grpc::ClientContext*,
                                               const Request&, Response*),
                  const Request& request, Response* response) {
  grpc::ClientContext context;
  SetDeadline(context);
  return (stub.*method)(&context, request, response);
}

// The code is `code`, and the message has `word` in it.
void ExpectError(const grpc::Status& status, grpc::StatusCode code,
                 const std::string& word);
void ExpectOk(const grpc::Status& status);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_SERVICES_SERVICE_TEST_UTIL_H_
