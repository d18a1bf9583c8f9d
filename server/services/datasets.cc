#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/train/training_run.h"
#include "kernels/status.h"
#include "proto/recurve/v1/data.grpc.pb.h"
#include "server/call.h"
#include "server/convert.h"
#include "server/resource_name.h"
#include "server/services/services.h"
#include "server/stream_call.h"
#include "server/upload_call.h"

namespace recurve::server {
namespace {

using google::protobuf::Empty;
using grpc::CallbackServerContext;

class DatasetSink : public UploadSink {
 public:
  static absl::StatusOr<std::unique_ptr<UploadSink>> Open(
      Engine& engine, const v1::UploadDatasetRequest::Header& header,
      v1::Dataset* response) {
    ASSIGN_OR_RETURN(auto upload, engine.datasets->StartUpload(
                                      header.dataset_id(), header.sha256()));
    return std::unique_ptr<UploadSink>(
        new DatasetSink(std::move(upload), response));
  }

  absl::Status Append(absl::string_view bytes) override {
    return upload_->Append(bytes);
  }

  absl::Status Commit(const CallControl& control) override {
    RETURN_IF_ERROR(control.Check());
    ASSIGN_OR_RETURN(const DatasetInfo dataset, upload_->Commit());
    *response_ = ToWire(dataset);
    return absl::OkStatus();
  }

 private:
  DatasetSink(std::unique_ptr<DatasetUpload> upload, v1::Dataset* response)
      : upload_(std::move(upload)), response_(response) {}

  const std::unique_ptr<DatasetUpload> upload_;
  v1::Dataset* const response_;
};

// The batches of a training run, in its order.
class ReadBatchesCall : public StreamCall<v1::ReadBatchesResponse> {
 public:
  ReadBatchesCall(Engine& engine, v1::TrainSpec spec,
                  const CallbackServerContext& context)
      : StreamCall(engine.calls, engine.work, engine.config.max_message_bytes(),
                   context),
        engine_(engine),
        spec_(std::move(spec)) {}

 private:
  absl::StatusOr<Step> Next(v1::ReadBatchesResponse* message) override {
    if (!run_.has_value()) RETURN_IF_ERROR(Prepare());
    if (sent_ == run_->max_batches) return Step::kEnd;
    const Batch batch = run_->loader->Next();
    *message->mutable_batch() = ToWire(batch.sequences);
    *message->mutable_targets() = ToWire(batch.targets);
    message->set_continue_streams(batch.continue_streams);
    message->set_epoch(batch.epoch);
    ++sent_;
    return Step::kWrite;
  }

  absl::Status Prepare() {
    if (spec_.max_steps() == 0 && spec_.max_epochs() == 0) {
      return absl::InvalidArgumentError(
          "spec: max_steps or max_epochs is needed to know where to end");
    }
    ASSIGN_OR_RETURN(
        TrainingRun run,
        PrepareTrainingRun(spec_, *engine_.datasets, engine_.models,
                           engine_.config.max_parameters()));
    run.start.parameters.clear();  // of no use here
    run_ = std::move(run);
    return absl::OkStatus();
  }

  Engine& engine_;
  const v1::TrainSpec spec_;
  std::optional<TrainingRun> run_;
  int64_t sent_ = 0;
};

class DatasetsService final : public v1::Datasets::CallbackService {
 public:
  explicit DatasetsService(Engine& engine) : engine_(engine) {}

  grpc::ServerReadReactor<v1::UploadDatasetRequest>* UploadDataset(
      CallbackServerContext* context, v1::Dataset* response) override {
    return new UploadCall<v1::UploadDatasetRequest>(
        engine_.calls, engine_.io, engine_.work,
        engine_.config.max_upload_bytes(), *context,
        [this, response](const v1::UploadDatasetRequest::Header& header) {
          return DatasetSink::Open(engine_, header, response);
        });
  }

  grpc::ServerUnaryReactor* GetDataset(CallbackServerContext* context,
                                       const v1::GetDatasetRequest* request,
                                       v1::Dataset* response) override {
    return ReplyNow(context, [&] { return Get(*request, response); });
  }

  grpc::ServerUnaryReactor* ListDatasets(
      CallbackServerContext* context, const v1::ListDatasetsRequest* request,
      v1::ListDatasetsResponse* response) override {
    return ReplyNow(context, [&] { return List(*request, response); });
  }

  grpc::ServerUnaryReactor* DeleteDataset(
      CallbackServerContext* context, const v1::DeleteDatasetRequest* request,
      Empty*) override {
    return ReplyByWork(engine_.calls, engine_.work, context,
                       [this, request](const CallControl&) -> absl::Status {
                         ASSIGN_OR_RETURN(
                             const std::string id,
                             ParseName(request->name(), "datasets", "name"));
                         return engine_.datasets->Delete(id);
                       });
  }

  grpc::ServerWriteReactor<v1::ReadBatchesResponse>* ReadBatches(
      CallbackServerContext* context,
      const v1::ReadBatchesRequest* request) override {
    return ReadBatchesCall::Start(
        std::make_shared<ReadBatchesCall>(engine_, request->spec(), *context));
  }

 private:
  absl::Status Get(const v1::GetDatasetRequest& request,
                   v1::Dataset* response) const {
    ASSIGN_OR_RETURN(const std::string id,
                     ParseName(request.name(), "datasets", "name"));
    ASSIGN_OR_RETURN(const DatasetInfo dataset, engine_.datasets->Get(id));
    *response = ToWire(dataset);
    return absl::OkStatus();
  }

  absl::Status List(const v1::ListDatasetsRequest& request,
                    v1::ListDatasetsResponse* response) const {
    ASSIGN_OR_RETURN(
        DatasetPage page,
        engine_.datasets->List(request.page_size(), request.page_token()));
    for (const DatasetInfo& dataset : page.datasets) {
      *response->add_datasets() = ToWire(dataset);
    }
    response->set_next_page_token(std::move(page.next_page_token));
    return absl::OkStatus();
  }

  Engine& engine_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewDatasetsService(Engine& engine) {
  return std::make_unique<DatasetsService>(engine);
}

}  // namespace recurve::server
