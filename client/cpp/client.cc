#include "client/cpp/client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/base/call_once.h"
#include "absl/time/clock.h"
#include "proto/grpc/health/v1/health.grpc.pb.h"
#include "proto/recurve/v1/compute.grpc.pb.h"
#include "proto/recurve/v1/data.grpc.pb.h"
#include "proto/recurve/v1/devices.grpc.pb.h"
#include "proto/recurve/v1/jobs.grpc.pb.h"
#include "proto/recurve/v1/model.grpc.pb.h"
#include "proto/recurve/v1/sessions.grpc.pb.h"

namespace recurve {
namespace {

// Bytes of a file in one message of an upload: small against the message limit,
// large against a message's overhead.
constexpr size_t kChunkBytes = 1 << 20;

// How long the first call waits for a connection.
constexpr absl::Duration kConnectPatience = absl::Seconds(2);

// gRPC says CANCELLED, too, of a call that met the end of a server which shuts
// down.
absl::Status FromGrpc(const grpc::Status& status,
                      bool cancelled_by_us = false) {
  if (status.error_code() == grpc::StatusCode::CANCELLED && !cancelled_by_us) {
    return absl::UnavailableError("the connection ended");
  }
  return {static_cast<absl::StatusCode>(status.error_code()),
          status.error_message()};
}

class GrpcPredictStream final : public PredictStream {
 public:
  GrpcPredictStream(v1::Inference::Stub& stub,
                    std::unique_ptr<grpc::ClientContext> context)
      : context_(std::move(context)),
        stream_(stub.PredictStream(context_.get())) {}

  bool Write(const v1::PredictRequest& request) override {
    return stream_->Write(request);
  }
  void WritesDone() override { stream_->WritesDone(); }
  bool Read(v1::PredictStreamResponse* response) override {
    return stream_->Read(response);
  }
  void Cancel() override {
    cancelled_ = true;
    context_->TryCancel();
  }
  absl::Status Finish() override {
    return FromGrpc(stream_->Finish(), cancelled_);
  }

 private:
  std::atomic<bool> cancelled_ = false;
  const std::unique_ptr<grpc::ClientContext> context_;
  const std::unique_ptr<
      grpc::ClientReaderWriter<v1::PredictRequest, v1::PredictStreamResponse>>
      stream_;
};

std::shared_ptr<grpc::ChannelCredentials> Credentials(
    const Client::Options& options) {
  const bool tls = options.tls || !options.tls_ca.empty() ||
                   !options.tls_certificate.empty();
  if (!tls) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials(
      {options.tls_ca, options.tls_key, options.tls_certificate});
}

class GrpcClient final : public Client {
 public:
  GrpcClient(const std::string& address, const Options& options)
      : timeout_(options.timeout),
        authorization_(options.token.empty() ? "" : "Bearer " + options.token),
        channel_(Channel(address, options)),
        models_(v1::Models::NewStub(channel_)),
        datasets_(v1::Datasets::NewStub(channel_)),
        inference_(v1::Inference::NewStub(channel_)),
        sessions_(v1::Sessions::NewStub(channel_)),
        trainers_(v1::Trainers::NewStub(channel_)),
        jobs_(v1::Jobs::NewStub(channel_)),
        devices_(v1::Devices::NewStub(channel_)) {}

  absl::Status CheckHealth() override;

  absl::StatusOr<v1::Model> CreateModel(
      const v1::CreateModelRequest& request) override {
    return Call<v1::Model>(*models_, &ModelsStub::CreateModel, request);
  }
  absl::StatusOr<v1::Model> GetModel(const std::string& name) override {
    return Call<v1::Model>(*models_, &ModelsStub::GetModel,
                           Named<v1::GetModelRequest>(name));
  }
  absl::StatusOr<std::vector<v1::Model>> ListModels() override {
    return CallPages<v1::Model, v1::ListModelsResponse>(
        *models_, &ModelsStub::ListModels, v1::ListModelsRequest(),
        &v1::ListModelsResponse::models);
  }
  absl::Status DeleteModel(const std::string& name) override {
    return CallEmpty(*models_, &ModelsStub::DeleteModel,
                     Named<v1::DeleteModelRequest>(name));
  }
  absl::StatusOr<v1::ModelVersion> GetModelVersion(
      const std::string& name) override {
    return Call<v1::ModelVersion>(*models_, &ModelsStub::GetModelVersion,
                                  Named<v1::GetModelVersionRequest>(name));
  }
  absl::StatusOr<v1::ModelVersion> LoadModelVersion(
      const v1::LoadModelVersionRequest& request) override {
    return Call<v1::ModelVersion>(*models_, &ModelsStub::LoadModelVersion,
                                  request);
  }
  absl::StatusOr<v1::ModelVersion> UnloadModelVersion(
      const std::string& name) override {
    return Call<v1::ModelVersion>(*models_, &ModelsStub::UnloadModelVersion,
                                  Named<v1::UnloadModelVersionRequest>(name));
  }
  absl::Status DeleteModelVersion(const std::string& name) override {
    return CallEmpty(*models_, &ModelsStub::DeleteModelVersion,
                     Named<v1::DeleteModelVersionRequest>(name));
  }
  absl::StatusOr<v1::Model> SetModelAlias(const std::string& name,
                                          const std::string& version) override {
    v1::SetModelAliasRequest request;
    request.set_name(name);
    request.set_model_version(version);
    return Call<v1::Model>(*models_, &ModelsStub::SetModelAlias, request);
  }
  absl::Status DeleteModelAlias(const std::string& name) override {
    return CallEmpty(*models_, &ModelsStub::DeleteModelAlias,
                     Named<v1::DeleteModelAliasRequest>(name));
  }
  absl::StatusOr<std::vector<v1::ModelVersion>> ListModelVersions(
      const std::string& model) override {
    v1::ListModelVersionsRequest request;
    request.set_parent(model);
    return CallPages<v1::ModelVersion, v1::ListModelVersionsResponse>(
        *models_, &ModelsStub::ListModelVersions, request,
        &v1::ListModelVersionsResponse::versions);
  }
  absl::StatusOr<v1::ModelVersion> ImportModel(
      const v1::ImportModelRequest::Header& header,
      absl::string_view weights) override {
    return Upload<v1::ModelVersion, v1::ImportModelRequest>(
        *models_, &ModelsStub::ImportModel, header, weights);
  }
  absl::Status ExportModel(const std::string& name,
                           const FileSink& sink) override {
    return ReadStream<v1::ExportModelResponse>(
        *models_, &ModelsStub::ExportModel, Named<v1::ExportModelRequest>(name),
        [&](const v1::ExportModelResponse& piece) {
          return sink(piece.file_name(), piece.chunk());
        });
  }

  absl::StatusOr<v1::Dataset> UploadDataset(
      const v1::UploadDatasetRequest::Header& header,
      absl::string_view bytes) override {
    return Upload<v1::Dataset, v1::UploadDatasetRequest>(
        *datasets_, &DatasetsStub::UploadDataset, header, bytes);
  }
  absl::StatusOr<v1::Dataset> GetDataset(const std::string& name) override {
    return Call<v1::Dataset>(*datasets_, &DatasetsStub::GetDataset,
                             Named<v1::GetDatasetRequest>(name));
  }
  absl::StatusOr<std::vector<v1::Dataset>> ListDatasets() override {
    return CallPages<v1::Dataset, v1::ListDatasetsResponse>(
        *datasets_, &DatasetsStub::ListDatasets, v1::ListDatasetsRequest(),
        &v1::ListDatasetsResponse::datasets);
  }
  absl::Status DeleteDataset(const std::string& name) override {
    return CallEmpty(*datasets_, &DatasetsStub::DeleteDataset,
                     Named<v1::DeleteDatasetRequest>(name));
  }
  absl::Status ReadBatches(
      const v1::TrainSpec& spec,
      const std::function<absl::Status(const v1::ReadBatchesResponse&)>& sink)
      override {
    v1::ReadBatchesRequest request;
    *request.mutable_spec() = spec;
    return ReadStream<v1::ReadBatchesResponse>(
        *datasets_, &DatasetsStub::ReadBatches, request, sink);
  }

  absl::StatusOr<v1::PredictResponse> Predict(
      const v1::PredictRequest& request) override {
    return Call<v1::PredictResponse>(*inference_, &InferenceStub::Predict,
                                     request);
  }
  std::unique_ptr<PredictStream> StartPredictStream() override {
    return std::make_unique<GrpcPredictStream>(*inference_, Context());
  }
  absl::Status Generate(
      const v1::GenerateRequest& request,
      const std::function<absl::Status(const v1::GenerateResponse&)>& sink)
      override {
    return ReadStream<v1::GenerateResponse>(
        *inference_, &InferenceStub::Generate, request, sink);
  }
  absl::StatusOr<v1::EvaluateResponse> Evaluate(
      const v1::EvaluateRequest& request) override {
    return Call<v1::EvaluateResponse>(*inference_, &InferenceStub::Evaluate,
                                      request);
  }

  absl::StatusOr<v1::Session> CreateSession(
      const v1::CreateSessionRequest& request) override {
    return Call<v1::Session>(*sessions_, &SessionsStub::CreateSession, request);
  }
  absl::StatusOr<v1::Session> GetSession(const std::string& name) override {
    return Call<v1::Session>(*sessions_, &SessionsStub::GetSession,
                             Named<v1::GetSessionRequest>(name));
  }
  absl::StatusOr<std::vector<v1::Session>> ListSessions(
      const std::string& model) override {
    v1::ListSessionsRequest request;
    request.set_model(model);
    return CallPages<v1::Session, v1::ListSessionsResponse>(
        *sessions_, &SessionsStub::ListSessions, request,
        &v1::ListSessionsResponse::sessions);
  }
  absl::Status DeleteSession(const std::string& name) override {
    return CallEmpty(*sessions_, &SessionsStub::DeleteSession,
                     Named<v1::DeleteSessionRequest>(name));
  }
  absl::StatusOr<v1::SessionSnapshot> SnapshotSession(
      const std::string& name) override {
    return Call<v1::SessionSnapshot>(*sessions_, &SessionsStub::SnapshotSession,
                                     Named<v1::SnapshotSessionRequest>(name));
  }
  absl::StatusOr<v1::Session> ForkSession(
      const v1::ForkSessionRequest& request) override {
    return Call<v1::Session>(*sessions_, &SessionsStub::ForkSession, request);
  }
  absl::StatusOr<v1::Session> MoveSession(
      const v1::MoveSessionRequest& request) override {
    return Call<v1::Session>(*sessions_, &SessionsStub::MoveSession, request);
  }

  absl::StatusOr<v1::Trainer> CreateTrainer(
      const v1::CreateTrainerRequest& request) override {
    return Call<v1::Trainer>(*trainers_, &TrainersStub::CreateTrainer, request);
  }
  absl::StatusOr<v1::Trainer> GetTrainer(const std::string& name) override {
    return Call<v1::Trainer>(*trainers_, &TrainersStub::GetTrainer,
                             Named<v1::GetTrainerRequest>(name));
  }
  absl::StatusOr<std::vector<v1::Trainer>> ListTrainers() override {
    return CallPages<v1::Trainer, v1::ListTrainersResponse>(
        *trainers_, &TrainersStub::ListTrainers, v1::ListTrainersRequest(),
        &v1::ListTrainersResponse::trainers);
  }
  absl::Status DeleteTrainer(const std::string& name) override {
    return CallEmpty(*trainers_, &TrainersStub::DeleteTrainer,
                     Named<v1::DeleteTrainerRequest>(name));
  }
  absl::StatusOr<v1::StepResponse> Step(
      const v1::StepRequest& request) override {
    return Call<v1::StepResponse>(*trainers_, &TrainersStub::Step, request);
  }
  absl::StatusOr<v1::TrainerCheckpoint> SaveTrainer(
      const v1::SaveTrainerRequest& request) override {
    return Call<v1::TrainerCheckpoint>(*trainers_, &TrainersStub::SaveTrainer,
                                       request);
  }
  absl::StatusOr<v1::ListTrainerCheckpointsResponse> ListTrainerCheckpoints(
      const std::string& trainer) override {
    return Call<v1::ListTrainerCheckpointsResponse>(
        *trainers_, &TrainersStub::ListTrainerCheckpoints,
        Named<v1::ListTrainerCheckpointsRequest>(trainer));
  }
  absl::StatusOr<v1::Trainer> LoadTrainer(
      const v1::LoadTrainerRequest& request) override {
    return Call<v1::Trainer>(*trainers_, &TrainersStub::LoadTrainer, request);
  }
  absl::StatusOr<v1::PublishTrainerResponse> PublishTrainer(
      const v1::PublishTrainerRequest& request) override {
    return Call<v1::PublishTrainerResponse>(
        *trainers_, &TrainersStub::PublishTrainer, request);
  }

  absl::StatusOr<v1::Job> Train(const v1::TrainRequest& request) override {
    return Call<v1::Job>(*jobs_, &JobsStub::Train, request);
  }
  absl::StatusOr<v1::Job> GetJob(const std::string& name) override {
    return Call<v1::Job>(*jobs_, &JobsStub::GetJob,
                         Named<v1::GetJobRequest>(name));
  }
  absl::StatusOr<std::vector<v1::Job>> ListJobs() override {
    return CallPages<v1::Job, v1::ListJobsResponse>(
        *jobs_, &JobsStub::ListJobs, v1::ListJobsRequest(),
        &v1::ListJobsResponse::jobs);
  }
  absl::StatusOr<v1::Job> CancelJob(const std::string& name) override {
    return Call<v1::Job>(*jobs_, &JobsStub::CancelJob,
                         Named<v1::CancelJobRequest>(name));
  }
  absl::StatusOr<v1::Job> PauseJob(const std::string& name) override {
    return Call<v1::Job>(*jobs_, &JobsStub::PauseJob,
                         Named<v1::PauseJobRequest>(name));
  }
  absl::StatusOr<v1::Job> ResumeJob(const std::string& name) override {
    return Call<v1::Job>(*jobs_, &JobsStub::ResumeJob,
                         Named<v1::ResumeJobRequest>(name));
  }
  absl::Status DeleteJob(const std::string& name) override {
    return CallEmpty(*jobs_, &JobsStub::DeleteJob,
                     Named<v1::DeleteJobRequest>(name));
  }
  absl::Status WatchJob(
      const std::string& name, int64_t first_event,
      const std::function<absl::Status(const v1::JobEvent&)>& sink) override {
    v1::WatchJobRequest request;
    request.set_name(name);
    request.set_first_event(first_event);
    return ReadStream<v1::JobEvent>(*jobs_, &JobsStub::WatchJob, request, sink);
  }

  absl::StatusOr<v1::ListDevicesResponse> ListDevices() override {
    return Call<v1::ListDevicesResponse>(*devices_, &DevicesStub::ListDevices,
                                         v1::ListDevicesRequest());
  }

 private:
  using ModelsStub = v1::Models::Stub;
  using DatasetsStub = v1::Datasets::Stub;
  using InferenceStub = v1::Inference::Stub;
  using SessionsStub = v1::Sessions::Stub;
  using TrainersStub = v1::Trainers::Stub;
  using JobsStub = v1::Jobs::Stub;
  using DevicesStub = v1::Devices::Stub;

  static std::shared_ptr<grpc::Channel> Channel(const std::string& address,
                                                const Options& options) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxSendMessageSize(options.max_message_bytes);
    arguments.SetMaxReceiveMessageSize(options.max_message_bytes);
    arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
    arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
    return grpc::CreateCustomChannel(address, Credentials(options), arguments);
  }

  template <typename Request>
  static Request Named(const std::string& name) {
    Request request;
    request.set_name(name);
    return request;
  }

  // A server that is just starting, or a network that drops a first attempt, is
  // no error yet: the first call tries for a moment, later ones find the
  // channel as it is.
  void AwaitConnection(absl::Time deadline) {
    absl::call_once(connected_, [&] {
      channel_->WaitForConnected(absl::ToChronoTime(
          std::min(deadline, absl::Now() + kConnectPatience)));
    });
  }

  std::unique_ptr<grpc::ClientContext> Context() {
    const absl::Time deadline = absl::Now() + timeout_;
    AwaitConnection(deadline);
    auto context = std::make_unique<grpc::ClientContext>();
    if (!authorization_.empty()) {
      context->AddMetadata("authorization", authorization_);
    }
    if (timeout_ == absl::InfiniteDuration()) return context;
    // gRPC rounds a deadline up to a millisecond, in which a call may succeed:
    // one that is over must be over.
    const bool over = absl::Now() >= deadline;
    context->set_deadline(
        absl::ToChronoTime(over ? deadline - absl::Minutes(1) : deadline));
    return context;
  }

  template <typename Response, typename Stub, typename Method, typename Request>
  absl::StatusOr<Response> Call(Stub& stub, Method method,
                                const Request& request) {
    auto context = Context();
    Response response;
    const grpc::Status status =
        (stub.*method)(context.get(), request, &response);
    if (!status.ok()) return FromGrpc(status);
    return response;
  }

  template <typename Stub, typename Method, typename Request>
  absl::Status CallEmpty(Stub& stub, Method method, const Request& request) {
    return Call<google::protobuf::Empty>(stub, method, request).status();
  }

  // All pages of a list; `items` is the response's accessor of its items.
  template <typename Item, typename Response, typename Stub, typename Method,
            typename Request>
  absl::StatusOr<std::vector<Item>> CallPages(
      Stub& stub, Method method, Request request,
      const google::protobuf::RepeatedPtrField<Item>& (Response::*items)()
          const) {
    std::vector<Item> all;
    do {
      absl::StatusOr<Response> page = Call<Response>(stub, method, request);
      if (!page.ok()) return page.status();
      all.insert(all.end(), ((*page).*items)().begin(),
                 ((*page).*items)().end());
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    return all;
  }

  // A header, then `bytes` in chunks. A server that refuses early ends the
  // writing; its status says why.
  template <typename Response, typename Request, typename Stub, typename Method,
            typename Header>
  absl::StatusOr<Response> Upload(Stub& stub, Method method,
                                  const Header& header,
                                  absl::string_view bytes) {
    auto context = Context();
    Response response;
    auto writer = (stub.*method)(context.get(), &response);
    Request message;
    *message.mutable_header() = header;
    message.mutable_header()->set_size_bytes(
        static_cast<int64_t>(bytes.size()));
    bool open = writer->Write(message);
    for (size_t at = 0; open && at < bytes.size(); at += kChunkBytes) {
      const absl::string_view chunk = bytes.substr(at, kChunkBytes);
      message.set_chunk(chunk.data(), chunk.size());
      open = writer->Write(message);
    }
    if (open) writer->WritesDone();
    const grpc::Status status = writer->Finish();
    if (!status.ok()) return FromGrpc(status);
    return response;
  }

  template <typename Response, typename Stub, typename Method, typename Request,
            typename Sink>
  absl::Status ReadStream(Stub& stub, Method method, const Request& request,
                          const Sink& sink) {
    auto context = Context();
    auto reader = (stub.*method)(context.get(), request);
    absl::Status sunk;
    Response response;
    while (sunk.ok() && reader->Read(&response)) sunk = sink(response);
    if (!sunk.ok()) context->TryCancel();
    const absl::Status status = FromGrpc(reader->Finish());
    return sunk.ok() ? status : sunk;
  }

  const absl::Duration timeout_;
  const std::string authorization_;  // "Bearer TOKEN", or empty
  absl::once_flag connected_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<ModelsStub> models_;
  const std::unique_ptr<DatasetsStub> datasets_;
  const std::unique_ptr<InferenceStub> inference_;
  const std::unique_ptr<SessionsStub> sessions_;
  const std::unique_ptr<TrainersStub> trainers_;
  const std::unique_ptr<JobsStub> jobs_;
  const std::unique_ptr<DevicesStub> devices_;
};

absl::Status GrpcClient::CheckHealth() {
  const auto health = grpc::health::v1::Health::NewStub(channel_);
  const auto response = Call<grpc::health::v1::HealthCheckResponse>(
      *health, &grpc::health::v1::Health::Stub::Check,
      grpc::health::v1::HealthCheckRequest());
  if (!response.ok()) return response.status();
  if (response->status() != grpc::health::v1::HealthCheckResponse::SERVING) {
    return absl::UnavailableError("the server is up but not serving");
  }
  return absl::OkStatus();
}

}  // namespace

std::unique_ptr<Client> Client::Connect(const std::string& address,
                                        const Options& options) {
  return std::make_unique<GrpcClient>(address, options);
}

}  // namespace recurve
