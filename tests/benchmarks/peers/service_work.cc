#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/client.h"
#include "engine/model/config.h"
#include "kernels/status.h"
#include "tests/benchmarks/peers/random_floats.h"
#include "tests/benchmarks/peers/work.h"

namespace recurve::peers {
namespace {

class PredictWork : public Work {
 public:
  PredictWork(std::unique_ptr<Client> client, v1::PredictRequest request)
      : client_(std::move(client)), request_(std::move(request)) {}

  absl::Status Run(int64_t turns) override {
    for (int64_t turn = 0; turn < turns; ++turn) {
      RETURN_IF_ERROR(client_->Predict(request_).status());
    }
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<Client> client_;
  const v1::PredictRequest request_;
};

absl::Status CreateModel(Client& client, const std::string& id,
                         const std::string& config) {
  v1::CreateModelRequest request;
  request.set_model_id(id);
  ASSIGN_OR_RETURN(*request.mutable_config(), ParseModelConfig(config));
  request.set_seed(1);
  const absl::Status status = client.CreateModel(request).status();
  // An earlier work's, for the same shape.
  return absl::IsAlreadyExists(status) ? absl::OkStatus() : status;
}

v1::PredictRequest RandomRequest(const std::string& model, const Shape& shape) {
  v1::PredictRequest request;
  request.set_model(model);
  v1::SequenceBatch& batch = *request.mutable_batch();
  for (int64_t b = 0; b <= shape.batch; ++b) {
    batch.add_cu_seqlens(b * shape.length);
  }
  const std::vector<float> features =
      RandomFloats(shape.rows() * shape.hidden, 1);
  batch.set_features(features.data(), sizeof(float) * features.size());
  return request;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Work>> ServiceWork(const std::string& address,
                                                  const std::string& cell,
                                                  Kind kind,
                                                  const Shape& shape) {
  if (kind == Kind::kTraining || (kind == Kind::kStep && shape.batch != 1)) {
    return absl::InvalidArgumentError(
        "through the service: inference, and steps of one session");
  }
  auto client = Client::Connect(address);
  const std::string id =
      absl::StrCat(cell, "-", shape.hidden, "-", shape.layers);
  RETURN_IF_ERROR(CreateModel(*client, id, ConfigText(cell, shape)));
  const std::string model = absl::StrCat("models/", id);
  v1::PredictRequest request = RandomRequest(model, shape);
  if (kind == Kind::kStep) {
    v1::CreateSessionRequest create;
    create.set_model(model);
    ASSIGN_OR_RETURN(const v1::Session session, client->CreateSession(create));
    request.mutable_session()->set_name(session.name());
  }
  return std::make_unique<PredictWork>(std::move(client), std::move(request));
}

}  // namespace recurve::peers
