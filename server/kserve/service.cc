#include "server/kserve/service.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "kernels/status.h"
#include "proto/inference/inference.grpc.pb.h"
#include "server/call.h"
#include "server/kserve/infer.h"
#include "server/kserve/infer_stream.h"
#include "server/kserve/model_info.h"
#include "server/kserve/models.h"
#include "server/kserve/repository.h"
#include "server/kserve/settings.h"
#include "server/kserve/shared_memory.h"
#include "server/kserve/shared_memory_calls.h"
#include "server/kserve/statistics.h"

namespace recurve::server::kserve {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

// --- What there is ---

constexpr char kServerName[] = "recurve";
constexpr char kServerVersion[] = "1";
constexpr const char* kExtensions[] = {"classification",
                                       "model_configuration",
                                       "model_repository",
                                       "schedule_policy",
                                       "sequence",
                                       "statistics",
                                       "system_shared_memory"};

void DescribeServer(inference::ServerMetadataResponse* response) {
  response->set_name(kServerName);
  response->set_version(kServerVersion);
  for (const char* const extension : kExtensions) {
    response->add_extensions(extension);
  }
}

// Flags are checked when the engine opens.
absl::Duration DurationOf(const std::string& flag) {
  absl::Duration duration;
  return absl::ParseDuration(flag, &duration) ? duration : absl::ZeroDuration();
}

ServingLimits LimitsOf(const ServerConfig& config) {
  ServingLimits limits;
  limits.max_batch_size = config.max_batch_size();
  limits.batch_timeout = DurationOf(config.batch_timeout());
  limits.priority_levels = config.priority_levels();
  limits.default_priority = config.default_priority();
  limits.sequence_idle_timeout = DurationOf(config.session_idle_timeout());
  limits.max_sequences = config.max_sessions();
  return limits;
}

// Also of a version that takes no requests now.
absl::StatusOr<ModelHandle> Find(const Registry& registry,
                                 const std::string& name,
                                 const std::string& version) {
  return FindVersion(name, version, [&](absl::string_view full_name) {
    return registry.Get(full_name);
  });
}

// That a model isn't there is no error: it isn't ready.
absl::Status ModelReady(const VersionStates& states,
                        const inference::ModelReadyRequest& request,
                        inference::ModelReadyResponse* response) {
  const auto name = VersionName(request.name(), request.version());
  response->set_ready(name.ok() && states.CheckReady(*name).ok());
  return absl::OkStatus();
}

absl::Status ModelMetadata(const Registry& registry,
                           const inference::ModelMetadataRequest& request,
                           inference::ModelMetadataResponse* response) {
  ASSIGN_OR_RETURN(const ModelHandle version,
                   Find(registry, request.name(), request.version()));
  ASSIGN_OR_RETURN(const std::vector<ModelHandle> versions,
                   VersionsOf(registry, request.name()));
  *response = MetadataOf(*version, versions);
  return absl::OkStatus();
}

// A client's metadata `recurve-scheduling: dynamic` asks for the configuration
// without sequences.
bool WantsPlainConfig(const CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto found = metadata.find("recurve-scheduling");
  return found != metadata.end() && found->second == "dynamic";
}

absl::Status NoSharedMemory() {
  return absl::PermissionDeniedError(
      "shared memory is for clients on the server's machine, which reach it by "
      "loopback; send tensors in the request");
}

absl::Status NoCudaSharedMemory() {
  return absl::UnimplementedError(
      "this server has no CUDA shared memory; use system shared memory, or "
      "send tensors in the request");
}

class InferenceProtocolService final
    : public inference::GRPCInferenceService::CallbackService {
 public:
  explicit InferenceProtocolService(Engine& engine)
      : engine_(engine), registry_(*engine.registry) {}

  ServerUnaryReactor* ServerLive(
      CallbackServerContext* context, const inference::ServerLiveRequest*,
      inference::ServerLiveResponse* response) override {
    return ReplyNow(context, [response] {
      response->set_live(true);
      return absl::OkStatus();
    });
  }

  ServerUnaryReactor* ServerReady(
      CallbackServerContext* context, const inference::ServerReadyRequest*,
      inference::ServerReadyResponse* response) override {
    return ReplyNow(context, [this, response] {
      response->set_ready(!engine_.draining.given());
      return absl::OkStatus();
    });
  }

  ServerUnaryReactor* ServerMetadata(
      CallbackServerContext* context, const inference::ServerMetadataRequest*,
      inference::ServerMetadataResponse* response) override {
    return ReplyNow(context, [response] {
      DescribeServer(response);
      return absl::OkStatus();
    });
  }

  ServerUnaryReactor* ModelReady(
      CallbackServerContext* context,
      const inference::ModelReadyRequest* request,
      inference::ModelReadyResponse* response) override {
    // It may have to read the weights.
    return ReplyByWork(engine_.calls, engine_.work, context,
                       [this, request, response](const CallControl&) {
                         return kserve::ModelReady(*engine_.versions, *request,
                                                   response);
                       });
  }

  ServerUnaryReactor* ModelMetadata(
      CallbackServerContext* context,
      const inference::ModelMetadataRequest* request,
      inference::ModelMetadataResponse* response) override {
    return ReplyNow(context, [&] {
      return kserve::ModelMetadata(registry_, *request, response);
    });
  }

  ServerUnaryReactor* ModelConfig(
      CallbackServerContext* context,
      const inference::ModelConfigRequest* request,
      inference::ModelConfigResponse* response) override {
    return ReplyNow(context, [&]() -> absl::Status {
      ASSIGN_OR_RETURN(const ModelHandle version,
                       Find(registry_, request->name(), request->version()));
      *response->mutable_config() = ConfigOf(*version, LimitsOf(engine_.config),
                                             WantsPlainConfig(*context));
      return absl::OkStatus();
    });
  }

  ServerUnaryReactor* ModelStatistics(
      CallbackServerContext* context,
      const inference::ModelStatisticsRequest* request,
      inference::ModelStatisticsResponse* response) override {
    return ReplyNow(context, [&]() -> absl::Status {
      ASSIGN_OR_RETURN(
          *response,
          Statistics(registry_, engine_.batcher.statistics(), *request));
      return absl::OkStatus();
    });
  }

  // --- Inference ---

  ServerUnaryReactor* ModelInfer(
      CallbackServerContext* context,
      const inference::ModelInferRequest* request,
      inference::ModelInferResponse* response) override {
    return UnaryCall::Start(engine_.calls, *context, [&](UnaryCall* call) {
      Infer(engine_, RegionsFor(*context), *request,
            {call->control(), call->client()}, *response,
            [call](const absl::Status& status) { call->Reply(status); });
    });
  }

  grpc::ServerBidiReactor<inference::ModelInferRequest,
                          inference::ModelStreamInferResponse>*
  ModelStreamInfer(CallbackServerContext* context) override {
    return StartInferStream(engine_, RegionsFor(*context), *context);
  }

  // --- Model control ---

  ServerUnaryReactor* RepositoryIndex(
      CallbackServerContext* context,
      const inference::RepositoryIndexRequest* request,
      inference::RepositoryIndexResponse* response) override {
    return ReplyNow(context, [&] {
      *response = IndexOf(registry_, *engine_.versions, *request);
      return absl::OkStatus();
    });
  }

  ServerUnaryReactor* RepositoryModelLoad(
      CallbackServerContext* context,
      const inference::RepositoryModelLoadRequest* request,
      inference::RepositoryModelLoadResponse*) override {
    return ReplyByWork(engine_.calls, engine_.work, context,
                       [this, request](const CallControl&) {
                         return Load(*engine_.versions, *request);
                       });
  }

  ServerUnaryReactor* RepositoryModelUnload(
      CallbackServerContext* context,
      const inference::RepositoryModelUnloadRequest* request,
      inference::RepositoryModelUnloadResponse*) override {
    return ReplyByWork(engine_.calls, engine_.work, context,
                       [this, request](const CallControl&) {
                         return Unload(*engine_.versions, *request);
                       });
  }

  // --- Shared memory ---

  ServerUnaryReactor* SystemSharedMemoryStatus(
      CallbackServerContext* context,
      const inference::SystemSharedMemoryStatusRequest* request,
      inference::SystemSharedMemoryStatusResponse* response) override {
    return ReplyNow(context, [&] {
      return DescribeRegions(RegionsFor(*context), *request, response);
    });
  }

  ServerUnaryReactor* SystemSharedMemoryRegister(
      CallbackServerContext* context,
      const inference::SystemSharedMemoryRegisterRequest* request,
      inference::SystemSharedMemoryRegisterResponse*) override {
    return ReplyNow(context, [&] {
      return SharesMemory(context->peer()) ? RegisterRegion(*request, regions_)
                                           : NoSharedMemory();
    });
  }

  ServerUnaryReactor* SystemSharedMemoryUnregister(
      CallbackServerContext* context,
      const inference::SystemSharedMemoryUnregisterRequest* request,
      inference::SystemSharedMemoryUnregisterResponse*) override {
    return ReplyNow(context, [&] {
      if (!SharesMemory(context->peer())) return NoSharedMemory();
      UnregisterRegions(*request, regions_);
      return absl::OkStatus();
    });
  }

  ServerUnaryReactor* CudaSharedMemoryStatus(
      CallbackServerContext* context,
      const inference::CudaSharedMemoryStatusRequest*,
      inference::CudaSharedMemoryStatusResponse*) override {
    return ReplyNow(context, absl::OkStatus);  // none
  }

  ServerUnaryReactor* CudaSharedMemoryRegister(
      CallbackServerContext* context,
      const inference::CudaSharedMemoryRegisterRequest*,
      inference::CudaSharedMemoryRegisterResponse*) override {
    return ReplyNow(context, NoCudaSharedMemory);
  }

  ServerUnaryReactor* CudaSharedMemoryUnregister(
      CallbackServerContext* context,
      const inference::CudaSharedMemoryUnregisterRequest*,
      inference::CudaSharedMemoryUnregisterResponse*) override {
    return ReplyNow(context, absl::OkStatus);  // there is none to go
  }

  // --- The server's own reports ---

  ServerUnaryReactor* TraceSetting(
      CallbackServerContext* context,
      const inference::TraceSettingRequest* request,
      inference::TraceSettingResponse* response) override {
    return ReplyNow(context, [&]() -> absl::Status {
      ASSIGN_OR_RETURN(*response, TraceSettings(*request));
      return absl::OkStatus();
    });
  }

  ServerUnaryReactor* LogSettings(
      CallbackServerContext* context,
      const inference::LogSettingsRequest* request,
      inference::LogSettingsResponse* response) override {
    return ReplyNow(context, [&]() -> absl::Status {
      ASSIGN_OR_RETURN(*response, kserve::LogSettings(*request));
      return absl::OkStatus();
    });
  }

 private:
  const SharedMemoryRegions& RegionsFor(
      const CallbackServerContext& context) const {
    return SharesMemory(context.peer()) ? regions_ : no_regions_;
  }

  Engine& engine_;
  const Registry& registry_;
  SharedMemoryRegions regions_;
  const SharedMemoryRegions no_regions_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewInferenceProtocolService(Engine& engine) {
  return std::make_unique<InferenceProtocolService>(engine);
}

}  // namespace recurve::server::kserve
