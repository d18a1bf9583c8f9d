// The C++ client of a Recurve server: one typed method for each call, chunked
// uploads and downloads, whole lists instead of pages.
//
// Errors are those of the server, code and message as sent; Unavailable where
// it cannot be reached, DeadlineExceeded after Options::timeout. Thread-safe.
#ifndef RECURVE_CLIENT_CPP_CLIENT_H_
#define RECURVE_CLIENT_CPP_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/recurve/v1/compute.pb.h"
#include "proto/recurve/v1/data.pb.h"
#include "proto/recurve/v1/devices.pb.h"
#include "proto/recurve/v1/jobs.pb.h"
#include "proto/recurve/v1/model.pb.h"
#include "proto/recurve/v1/sessions.pb.h"

namespace recurve {

// Requests as they come, each answered in its turn. For one thread that writes
// and one that reads.
class PredictStream {
 public:
  virtual ~PredictStream() = default;

  // False once the stream has ended: Finish says why.
  virtual bool Write(const v1::PredictRequest& request) = 0;
  virtual void WritesDone() = 0;
  virtual bool Read(v1::PredictStreamResponse* response) = 0;
  // Nobody wants the answers any more.
  virtual void Cancel() = 0;
  // Once, when Read has returned false.
  virtual absl::Status Finish() = 0;
};

class Client {
 public:
  struct Options {
    absl::Duration timeout = absl::InfiniteDuration();  // of each call
    int max_message_bytes = 64 << 20;                   // sent or received

    // TLS, if any of these is set. PEM: the authorities that may vouch for the
    // server (empty: those of this machine), and what the server may ask to see
    // of the client.
    bool tls = false;
    std::string tls_ca;
    std::string tls_certificate;
    std::string tls_key;
    // Sent with every call; empty: none.
    std::string token;
  };

  // Connects on first use, for two seconds at most; a server that is not there
  // shows as Unavailable then.
  static std::unique_ptr<Client> Connect(const std::string& address,
                                         const Options& options);
  static std::unique_ptr<Client> Connect(const std::string& address) {
    return Connect(address, Options());
  }
  virtual ~Client() = default;

  // OK if the server says that it serves.
  virtual absl::Status CheckHealth() = 0;

  // --- Models ---
  virtual absl::StatusOr<v1::Model> CreateModel(
      const v1::CreateModelRequest& request) = 0;
  virtual absl::StatusOr<v1::Model> GetModel(const std::string& name) = 0;
  virtual absl::StatusOr<std::vector<v1::Model>> ListModels() = 0;
  virtual absl::Status DeleteModel(const std::string& name) = 0;
  // `name` is a version, an alias, or a model for its newest.
  virtual absl::StatusOr<v1::ModelVersion> GetModelVersion(
      const std::string& name) = 0;
  virtual absl::StatusOr<v1::ModelVersion> LoadModelVersion(
      const v1::LoadModelVersionRequest& request) = 0;
  virtual absl::StatusOr<v1::ModelVersion> UnloadModelVersion(
      const std::string& name) = 0;
  virtual absl::Status DeleteModelVersion(const std::string& name) = 0;
  // `name` is models/ID/aliases/ALIAS.
  virtual absl::StatusOr<v1::Model> SetModelAlias(
      const std::string& name, const std::string& version) = 0;
  virtual absl::Status DeleteModelAlias(const std::string& name) = 0;
  virtual absl::StatusOr<std::vector<v1::ModelVersion>> ListModelVersions(
      const std::string& model) = 0;
  // `weights` are the bytes of a .safetensors file.
  virtual absl::StatusOr<v1::ModelVersion> ImportModel(
      const v1::ImportModelRequest::Header& header,
      absl::string_view weights) = 0;
  // Calls `sink` with each piece in order; `file_name` is set on the first
  // piece of each file, else empty. An error from `sink` ends the call with it.
  using FileSink = std::function<absl::Status(const std::string& file_name,
                                              absl::string_view chunk)>;
  virtual absl::Status ExportModel(const std::string& name,
                                   const FileSink& sink) = 0;

  // --- Datasets ---
  virtual absl::StatusOr<v1::Dataset> UploadDataset(
      const v1::UploadDatasetRequest::Header& header,
      absl::string_view bytes) = 0;
  virtual absl::StatusOr<v1::Dataset> GetDataset(const std::string& name) = 0;
  virtual absl::StatusOr<std::vector<v1::Dataset>> ListDatasets() = 0;
  virtual absl::Status DeleteDataset(const std::string& name) = 0;
  // Calls `sink` with each batch in order; an error from it ends the call.
  virtual absl::Status ReadBatches(
      const v1::TrainSpec& spec,
      const std::function<absl::Status(const v1::ReadBatchesResponse&)>&
          sink) = 0;

  // --- Inference ---
  virtual absl::StatusOr<v1::PredictResponse> Predict(
      const v1::PredictRequest& request) = 0;
  // The client outlives it; Options::timeout is of the whole stream.
  virtual std::unique_ptr<PredictStream> StartPredictStream() = 0;
  // Calls `sink` with each message in order; an error from it ends the call.
  virtual absl::Status Generate(
      const v1::GenerateRequest& request,
      const std::function<absl::Status(const v1::GenerateResponse&)>& sink) = 0;
  virtual absl::StatusOr<v1::EvaluateResponse> Evaluate(
      const v1::EvaluateRequest& request) = 0;

  // --- Sessions ---
  virtual absl::StatusOr<v1::Session> CreateSession(
      const v1::CreateSessionRequest& request) = 0;
  virtual absl::StatusOr<v1::Session> GetSession(const std::string& name) = 0;
  // On a model or a version; empty: all.
  virtual absl::StatusOr<std::vector<v1::Session>> ListSessions(
      const std::string& model) = 0;
  virtual absl::Status DeleteSession(const std::string& name) = 0;
  virtual absl::StatusOr<v1::SessionSnapshot> SnapshotSession(
      const std::string& name) = 0;
  virtual absl::StatusOr<v1::Session> ForkSession(
      const v1::ForkSessionRequest& request) = 0;
  virtual absl::StatusOr<v1::Session> MoveSession(
      const v1::MoveSessionRequest& request) = 0;

  // --- Trainers ---
  virtual absl::StatusOr<v1::Trainer> CreateTrainer(
      const v1::CreateTrainerRequest& request) = 0;
  virtual absl::StatusOr<v1::Trainer> GetTrainer(const std::string& name) = 0;
  virtual absl::StatusOr<std::vector<v1::Trainer>> ListTrainers() = 0;
  virtual absl::Status DeleteTrainer(const std::string& name) = 0;
  virtual absl::StatusOr<v1::StepResponse> Step(
      const v1::StepRequest& request) = 0;
  virtual absl::StatusOr<v1::TrainerCheckpoint> SaveTrainer(
      const v1::SaveTrainerRequest& request) = 0;
  virtual absl::StatusOr<v1::ListTrainerCheckpointsResponse>
  ListTrainerCheckpoints(const std::string& trainer) = 0;
  virtual absl::StatusOr<v1::Trainer> LoadTrainer(
      const v1::LoadTrainerRequest& request) = 0;
  virtual absl::StatusOr<v1::PublishTrainerResponse> PublishTrainer(
      const v1::PublishTrainerRequest& request) = 0;

  // --- Jobs ---
  virtual absl::StatusOr<v1::Job> Train(const v1::TrainRequest& request) = 0;
  virtual absl::StatusOr<v1::Job> GetJob(const std::string& name) = 0;
  virtual absl::StatusOr<std::vector<v1::Job>> ListJobs() = 0;
  virtual absl::StatusOr<v1::Job> CancelJob(const std::string& name) = 0;
  virtual absl::StatusOr<v1::Job> PauseJob(const std::string& name) = 0;
  virtual absl::StatusOr<v1::Job> ResumeJob(const std::string& name) = 0;
  virtual absl::Status DeleteJob(const std::string& name) = 0;
  // Calls `sink` with each event from number `first_event` on, until the job
  // has ended; an error from `sink` ends the call with it. Unavailable when the
  // server stops: the events go on from the next number once it is back.
  virtual absl::Status WatchJob(
      const std::string& name, int64_t first_event,
      const std::function<absl::Status(const v1::JobEvent&)>& sink) = 0;

  // --- Devices ---
  virtual absl::StatusOr<v1::ListDevicesResponse> ListDevices() = 0;
};

}  // namespace recurve

#endif  // RECURVE_CLIENT_CPP_CLIENT_H_
