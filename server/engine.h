// Everything behind the services: the stores, the devices and what runs on
// them, put together as the configuration says.
#ifndef RECURVE_SERVER_ENGINE_H_
#define RECURVE_SERVER_ENGINE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/data/dataset_store.h"
#include "engine/jobs/job_runner.h"
#include "engine/jobs/job_store.h"
#include "engine/model/model.h"
#include "engine/schedule/device.h"
#include "engine/serve/batch_runner.h"
#include "engine/serve/batcher.h"
#include "engine/serve/evaluator.h"
#include "engine/serve/model_exchange.h"
#include "engine/serve/predictor.h"
#include "engine/serve/registry.h"
#include "engine/serve/session_predictor.h"
#include "engine/serve/session_store.h"
#include "engine/serve/version_loader.h"
#include "engine/serve/version_states.h"
#include "engine/train/trainer_store.h"
#include "kernels/precision.h"
#include "server/call.h"
#include "server/config.pb.h"
#include "server/directory_lock.h"
#include "server/notice.h"
#include "server/periodic_task.h"
#include "server/work_queue.h"

namespace recurve::server {

// Of the numbers in one reply, whose message may be as large as the
// configuration says.
int64_t MaxResultBytes(const ServerConfig& config);

// The parts are thread-safe, each by itself. Destroyed in reverse order: what
// uses a part stands below it.
class Engine {
 public:
  // Opens data_dir, which no other process may have open (FailedPrecondition).
  // InvalidArgument names the field that is wrong.
  static absl::StatusOr<std::unique_ptr<Engine>> Open(
      const ServerConfig& config);

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // ResourceExhausted beyond max_parameters.
  absl::Status CheckSize(const Model& model) const;
  // For the next start; nobody may use them any more. What is lost is said on
  // stderr.
  void SaveSessions();

  const ServerConfig config;
  const DirectoryLock data_dir;
  const std::string upload_directory;  // emptied at start
  const std::unique_ptr<Registry> registry;
  const std::unique_ptr<DatasetStore> datasets;
  const std::unique_ptr<JobStore> jobs;
  const std::unique_ptr<DevicePool> devices;
  BatchRunner batches;
  VersionLoader loader;
  Batcher batcher;
  Predictor predictor;
  SessionStore sessions;
  SessionPredictor session_predictor;
  std::optional<PeriodicTask> session_upkeep;
  std::vector<absl::Status> lost_sessions;  // by the last stop and start
  const Evaluator evaluator;
  RegistryExchange models;
  std::unique_ptr<TrainerStore> trainers;
  std::optional<PeriodicTask> trainer_upkeep;
  JobRunner job_runner;
  std::vector<absl::Status> damaged_jobs;  // as job_runner found them at start
  Notice jobs_stopped;                     // after job_runner's Shutdown
  // When a drain begins: streams that wait for their client end, Unavailable.
  Notice draining;
  LiveCalls calls;
  // Steps, evaluations, weights: what takes long.
  WorkQueue work;
  // Pieces of uploads and streams, changes of jobs: what is short.
  WorkQueue io;
  // Which versions take requests. Whoever serves them gets its handles here.
  std::unique_ptr<VersionStates> versions;

 private:
  Engine(const ServerConfig& config, const Batcher::Options& batching,
         Precision serving_precision, DirectoryLock data_dir,
         std::unique_ptr<DevicePool> devices,
         std::unique_ptr<Registry> registry,
         std::unique_ptr<DatasetStore> datasets, std::unique_ptr<JobStore> jobs,
         SessionStore::Options session_options);
  VersionStates::Hooks VersionHooks();
  absl::Status OpenTrainers(TrainerStore::Options options);
  absl::Status OpenSessions();
  std::string SessionsDirectory() const;
};

}  // namespace recurve::server

#endif  // RECURVE_SERVER_ENGINE_H_
