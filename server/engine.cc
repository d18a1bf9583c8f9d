#include "server/engine.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/directory.h"
#include "engine/schedule/device_budgets.h"
#include "engine/schedule/gpus.h"
#include "engine/schedule/memory_plan.h"
#include "engine/schedule/serving_precision.h"
#include "engine/serve/held_out_evaluation.h"
#include "engine/serve/session_files.h"
#include "engine/train/training_run.h"
#include "google/protobuf/descriptor.h"
#include "kernels/status.h"
#include "server/flags.h"

namespace recurve::server {
namespace {

constexpr absl::Duration kMinUpkeepPeriod = absl::Milliseconds(100);
constexpr absl::Duration kMaxUpkeepPeriod = absl::Seconds(30);
// So long a request that nobody wants any more may wait for its session.
constexpr absl::Duration kSessionUpkeepPeriod = absl::Milliseconds(100);
// A reply's framing and what is neither logits nor states.
constexpr int64_t kReplyOverheadBytes = 64 << 10;

// Every whole number in the configuration is a limit of at least 1.
absl::Status CheckNumbers(const ServerConfig& config) {
  const auto& descriptor = *config.GetDescriptor();
  const auto& reflection = *config.GetReflection();
  using Field = google::protobuf::FieldDescriptor;
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const Field& field = *descriptor.field(i);
    int64_t value = 1;
    if (field.cpp_type() == Field::CPPTYPE_INT64) {
      value = reflection.GetInt64(config, &field);
    } else if (field.cpp_type() == Field::CPPTYPE_INT32) {
      value = reflection.GetInt32(config, &field);
    }
    if (value >= 1) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--", field.name(), ": is ", value, ", must be 1 or more"));
  }
  if (!(config.serving_share() > 0 && config.serving_share() <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--serving_share: is ", config.serving_share(),
                     ", must be above 0 and at most 1"));
  }
  if (!(config.serving_memory_share() >= 0 &&
        config.serving_memory_share() <= kMaxServingMemoryShare)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--serving_memory_share: is ", config.serving_memory_share(),
        ", must be 0 to ", kMaxServingMemoryShare));
  }
  if (config.default_priority() > config.priority_levels()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--default_priority: is ", config.default_priority(),
        ", must be at most --priority_levels, ", config.priority_levels()));
  }
  if (config.max_message_bytes() > INT32_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max_message_bytes: is ", config.max_message_bytes(),
                     ", gRPC allows at most ", INT32_MAX));
  }
  return absl::OkStatus();
}

// What this process may use: the machine's memory, or less in a container.
int64_t MemoryBytes() {
  const int64_t machine =
      static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  std::ifstream file("/sys/fs/cgroup/memory.max");  // a number, or `max`
  int64_t container = 0;
  return file >> container ? std::min(machine, container) : machine;
}

absl::StatusOr<std::vector<DeviceSpec>> SpecsWithBudgets(
    const std::string& flag) {
  ASSIGN_OR_RETURN(std::vector<DeviceSpec> specs, ParseDevices(flag));
  ASSIGN_OR_RETURN(const auto gpus, FindGpus(specs));
  RETURN_IF_ERROR(SetBudgets(specs, MemoryBytes(), gpus));
  return specs;
}

absl::StatusOr<Precision> ServingPrecision(
    const ServerConfig& config, const std::vector<DeviceSpec>& specs) {
  const auto precision = ParsePrecision(config.serving_precision());
  absl::Status status = precision.status();
  if (status.ok()) status = CheckServes(specs, *precision);
  if (status.ok()) return precision;
  return absl::Status(status.code(),
                      absl::StrCat("--serving_precision: ", status.message()));
}

absl::Status Empty(const std::string& directory) {
  RETURN_IF_ERROR(RemoveTree(directory));
  return CreateDirectories(directory);
}

DeviceOptions PoolOptions(const ServerConfig& config) {
  DeviceOptions options;
  options.serving_share = config.serving_share();
  options.serving_memory_share = config.serving_memory_share();
  return options;
}

BatchRunner::Options BatchOptions(const ServerConfig& config) {
  BatchRunner::Options options;
  options.max_batch_rows = config.max_batch_rows();
  options.max_arena_bytes = config.max_arena_bytes();
  return options;
}

absl::StatusOr<Batcher::Options> BatcherOptions(const ServerConfig& config) {
  Batcher::Options options;
  options.max_batch_rows = config.max_batch_rows();
  options.max_batch_size = config.max_batch_size();
  options.max_chunk_rows = config.max_chunk_rows();
  options.max_arena_bytes = config.max_arena_bytes();
  options.max_enqueued = config.max_enqueued();
  options.max_enqueued_bytes = config.max_enqueued_bytes();
  options.pad_to_longest = config.benchmark_padding();
  ASSIGN_OR_RETURN(options.batch_timeout,
                   ParseDurationFlag("batch_timeout", config.batch_timeout(),
                                     absl::ZeroDuration()));
  return options;
}

Predictor::Options PredictorOptions(const ServerConfig& config) {
  Predictor::Options options;
  options.max_rows = config.max_request_rows();
  options.max_result_bytes = MaxResultBytes(config);
  return options;
}

absl::StatusOr<SessionStore::Options> SessionOptions(
    const ServerConfig& config) {
  SessionStore::Options options;
  ASSIGN_OR_RETURN(
      options.limits.idle_timeout,
      ParseDurationFlag("session_idle_timeout", config.session_idle_timeout(),
                        absl::Milliseconds(1)));
  options.limits.max_sessions = config.max_sessions();
  options.limits.max_bytes = config.max_session_bytes();
  options.max_waiting = config.max_enqueued();
  options.max_waiting_bytes = config.max_enqueued_bytes();
  return options;
}

JobRunner::Options JobOptions(const ServerConfig& config) {
  JobRunner::Options options;
  options.directory = absl::StrCat(config.data_dir(), "/jobs");
  options.max_running = config.max_running_jobs();
  options.max_queued = config.max_queued_jobs();
  options.max_parameters = config.max_parameters();
  options.max_evaluation_rows = Evaluator::Options().max_rows;
  return options;
}

// All but the directory and what depends on other parts of the engine.
absl::StatusOr<TrainerStore::Options> TrainerOptions(
    const ServerConfig& config) {
  TrainerStore::Options options;
  options.max_loaded = config.max_trainers();
  options.max_stored = config.max_stored_trainers();
  ASSIGN_OR_RETURN(
      options.idle_timeout,
      ParseDurationFlag("trainer_idle_timeout", config.trainer_idle_timeout(),
                        absl::Milliseconds(1)));
  ASSIGN_OR_RETURN(
      options.context.save_interval,
      ParseDurationFlag("trainer_save_interval", config.trainer_save_interval(),
                        absl::Milliseconds(1)));
  options.context.warn = [](const std::string& warning) {
    std::fprintf(stderr, "%s\n", warning.c_str());
  };
  return options;
}

// Often enough to be on time for either.
absl::Duration UpkeepPeriod(const TrainerStore::Options& options) {
  return std::clamp(
      std::min(options.idle_timeout, options.context.save_interval) / 4,
      kMinUpkeepPeriod, kMaxUpkeepPeriod);
}

}  // namespace

int64_t MaxResultBytes(const ServerConfig& config) {
  return std::max(config.max_message_bytes() - kReplyOverheadBytes,
                  config.max_message_bytes() / 2);
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Open(
    const ServerConfig& config) {
  RETURN_IF_ERROR(CheckNumbers(config));
  ASSIGN_OR_RETURN(const Batcher::Options batching, BatcherOptions(config));
  ASSIGN_OR_RETURN(TrainerStore::Options trainer_options,
                   TrainerOptions(config));
  ASSIGN_OR_RETURN(SessionStore::Options session_options,
                   SessionOptions(config));
  ASSIGN_OR_RETURN(const std::vector<DeviceSpec> specs,
                   SpecsWithBudgets(config.devices()));
  ASSIGN_OR_RETURN(const Precision precision, ServingPrecision(config, specs));
  ASSIGN_OR_RETURN(DirectoryLock data_dir,
                   DirectoryLock::Take(config.data_dir()));
  ASSIGN_OR_RETURN(auto registry, Registry::Open(data_dir.path()));
  DatasetStore::Options options;
  options.directory = absl::StrCat(data_dir.path(), "/datasets");
  options.data_root = config.data_root();
  options.max_upload_bytes = config.max_upload_bytes();
  options.max_read_bytes = config.max_dataset_bytes();
  options.max_uploads = config.max_streams();
  ASSIGN_OR_RETURN(auto datasets, DatasetStore::Open(options));
  ASSIGN_OR_RETURN(auto jobs,
                   JobStore::Open(absl::StrCat(data_dir.path(), "/jobs.db")));
  ASSIGN_OR_RETURN(auto devices, DevicePool::Create(specs, CreateBackend,
                                                    PoolOptions(config)));
  auto engine = std::unique_ptr<Engine>(
      new Engine(config, batching, precision, std::move(data_dir),
                 std::move(devices), std::move(registry), std::move(datasets),
                 std::move(jobs), std::move(session_options)));
  RETURN_IF_ERROR(Empty(engine->upload_directory));
  RETURN_IF_ERROR(engine->OpenSessions());
  RETURN_IF_ERROR(engine->OpenTrainers(std::move(trainer_options)));
  ASSIGN_OR_RETURN(engine->damaged_jobs, engine->job_runner.Start());
  return engine;
}

Engine::Engine(const ServerConfig& config, const Batcher::Options& batching,
               Precision serving_precision, DirectoryLock lock,
               std::unique_ptr<DevicePool> given_devices,
               std::unique_ptr<Registry> given_registry,
               std::unique_ptr<DatasetStore> given_datasets,
               std::unique_ptr<JobStore> given_jobs,
               SessionStore::Options session_options)
    : config(config),
      data_dir(std::move(lock)),
      upload_directory(absl::StrCat(data_dir.path(), "/uploads")),
      registry(std::move(given_registry)),
      datasets(std::move(given_datasets)),
      jobs(std::move(given_jobs)),
      devices(std::move(given_devices)),
      batches(*devices, BatchOptions(config)),
      loader(batches.admission(), BatchOptions(config)),
      batcher(batches, batching),
      predictor(batcher, PredictorOptions(config)),
      sessions(std::move(session_options)),
      session_predictor(sessions, predictor),
      evaluator(batches, Evaluator::Options()),
      models(*registry),
      job_runner(JobOptions(config), *devices, *jobs, *datasets, models,
                 EvaluateHeldOut(batches)),
      calls(config.max_streams()),
      work("a work thread", config.work_threads(), config.max_queued_work()),
      io("an io thread", 2, config.max_streams()),
      versions(std::make_unique<VersionStates>(*registry, VersionHooks(),
                                               serving_precision)) {
  registry->BeforeDelete([this](const ModelVersion& version) {
    if (sessions.CountOn(version) > 0) version.KeepParameters();
  });
  registry->OnDelete([this](const ModelVersion& version) {
    versions->Forget(version);
    for (const ModelHandle& any : version.AtAllPrecisions()) batches.Drop(*any);
    batcher.statistics().Forget(version.name);
  });
}

VersionStates::Hooks Engine::VersionHooks() {
  VersionStates::Hooks hooks;
  hooks.load = [this](const ModelHandle& version) {
    return loader.Load(version);
  };
  hooks.free = [this](const ModelVersion& version) { batches.Drop(version); };
  hooks.check_fits = [this](const ModelVersion& version) {
    return loader.CheckFits(version);
  };
  hooks.later = [this](std::function<void()> piece) {
    work.AddPiece(std::move(piece));
  };
  return hooks;
}

absl::Status Engine::OpenTrainers(TrainerStore::Options options) {
  options.directory = absl::StrCat(data_dir.path(), "/trainers");
  options.context.devices = devices.get();
  options.context.drop_weights = [this](const ModelVersion& weights) {
    batches.Drop(weights);
  };
  const absl::Duration period = UpkeepPeriod(options);
  ASSIGN_OR_RETURN(trainers, TrainerStore::Open(std::move(options)));
  trainer_upkeep.emplace(period, [this] { trainers->DoUpkeep(); });
  return absl::OkStatus();
}

std::string Engine::SessionsDirectory() const {
  return absl::StrCat(data_dir.path(), "/sessions");
}

absl::Status Engine::OpenSessions() {
  ASSIGN_OR_RETURN(
      SessionsOnDisk restored,
      RestoreSessions(
          SessionsDirectory(),
          [this](const std::string& name) { return versions->Enter(name); },
          sessions));
  lost_sessions = std::move(restored.lost);
  session_upkeep.emplace(kSessionUpkeepPeriod, [this] { sessions.DoUpkeep(); });
  return absl::OkStatus();
}

void Engine::SaveSessions() {
  const auto saved = recurve::SaveSessions(sessions, SessionsDirectory());
  std::vector<absl::Status> lost = {saved.status()};
  if (saved.ok()) lost = saved->lost;
  for (const absl::Status& error : lost) {
    std::fprintf(stderr, "sessions are lost: %s\n",
                 std::string(error.message()).c_str());
  }
}

absl::Status Engine::CheckSize(const Model& model) const {
  return CheckParameterCount(model, config.max_parameters());
}

}  // namespace recurve::server
