#include "server/access/scopes.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace recurve::server {
namespace {

using Table = absl::flat_hash_map<absl::string_view, Scope>;

constexpr Scope kGrantable[] = {Scope::kRead, Scope::kPredict, Scope::kTrain,
                                Scope::kAdmin};

unsigned Bit(Scope scope) { return 1u << static_cast<unsigned>(scope); }

// Without the slash at the beginning. Whatever writes is never kRead; what
// other clients would notice is kAdmin.
const Table& Methods() {
  static const auto& table = *new Table{
      {"grpc.health.v1.Health/Check", Scope::kOpen},
      {"grpc.health.v1.Health/Watch", Scope::kOpen},
      {"grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
       Scope::kOpen},

      {"recurve.v1.Datasets/UploadDataset", Scope::kTrain},
      {"recurve.v1.Datasets/GetDataset", Scope::kRead},
      {"recurve.v1.Datasets/ListDatasets", Scope::kRead},
      {"recurve.v1.Datasets/DeleteDataset", Scope::kTrain},
      {"recurve.v1.Datasets/ReadBatches", Scope::kTrain},

      {"recurve.v1.Devices/ListDevices", Scope::kRead},

      {"recurve.v1.Inference/Predict", Scope::kPredict},
      {"recurve.v1.Inference/PredictStream", Scope::kPredict},
      {"recurve.v1.Inference/Generate", Scope::kPredict},
      {"recurve.v1.Inference/Evaluate", Scope::kPredict},

      {"recurve.v1.Jobs/Train", Scope::kTrain},
      {"recurve.v1.Jobs/GetJob", Scope::kRead},
      {"recurve.v1.Jobs/ListJobs", Scope::kRead},
      {"recurve.v1.Jobs/WatchJob", Scope::kRead},
      {"recurve.v1.Jobs/CancelJob", Scope::kTrain},
      {"recurve.v1.Jobs/PauseJob", Scope::kTrain},
      {"recurve.v1.Jobs/ResumeJob", Scope::kTrain},
      {"recurve.v1.Jobs/DeleteJob", Scope::kTrain},

      {"recurve.v1.Models/CreateModel", Scope::kTrain},
      {"recurve.v1.Models/GetModel", Scope::kRead},
      {"recurve.v1.Models/ListModels", Scope::kRead},
      {"recurve.v1.Models/DeleteModel", Scope::kAdmin},
      {"recurve.v1.Models/GetModelVersion", Scope::kRead},
      {"recurve.v1.Models/ListModelVersions", Scope::kRead},
      {"recurve.v1.Models/ImportModel", Scope::kTrain},
      {"recurve.v1.Models/SetModelAlias", Scope::kAdmin},
      {"recurve.v1.Models/DeleteModelAlias", Scope::kAdmin},
      {"recurve.v1.Models/LoadModelVersion", Scope::kAdmin},
      {"recurve.v1.Models/UnloadModelVersion", Scope::kAdmin},
      {"recurve.v1.Models/DeleteModelVersion", Scope::kAdmin},
      {"recurve.v1.Models/ExportModel", Scope::kRead},

      {"recurve.v1.Sessions/CreateSession", Scope::kPredict},
      {"recurve.v1.Sessions/GetSession", Scope::kPredict},
      {"recurve.v1.Sessions/ListSessions", Scope::kRead},
      {"recurve.v1.Sessions/DeleteSession", Scope::kPredict},
      {"recurve.v1.Sessions/SnapshotSession", Scope::kPredict},
      {"recurve.v1.Sessions/ForkSession", Scope::kPredict},
      {"recurve.v1.Sessions/MoveSession", Scope::kPredict},

      {"recurve.v1.Trainers/CreateTrainer", Scope::kTrain},
      {"recurve.v1.Trainers/GetTrainer", Scope::kRead},
      {"recurve.v1.Trainers/ListTrainers", Scope::kRead},
      {"recurve.v1.Trainers/DeleteTrainer", Scope::kTrain},
      {"recurve.v1.Trainers/Step", Scope::kTrain},
      {"recurve.v1.Trainers/SaveTrainer", Scope::kTrain},
      {"recurve.v1.Trainers/ListTrainerCheckpoints", Scope::kRead},
      {"recurve.v1.Trainers/LoadTrainer", Scope::kTrain},
      {"recurve.v1.Trainers/PublishTrainer", Scope::kTrain},

      {"inference.GRPCInferenceService/ServerLive", Scope::kOpen},
      {"inference.GRPCInferenceService/ServerReady", Scope::kOpen},
      {"inference.GRPCInferenceService/ModelReady", Scope::kRead},
      {"inference.GRPCInferenceService/ServerMetadata", Scope::kRead},
      {"inference.GRPCInferenceService/ModelMetadata", Scope::kRead},
      {"inference.GRPCInferenceService/ModelConfig", Scope::kRead},
      {"inference.GRPCInferenceService/ModelStatistics", Scope::kRead},
      {"inference.GRPCInferenceService/ModelInfer", Scope::kPredict},
      {"inference.GRPCInferenceService/ModelStreamInfer", Scope::kPredict},
      {"inference.GRPCInferenceService/RepositoryIndex", Scope::kRead},
      {"inference.GRPCInferenceService/RepositoryModelLoad", Scope::kAdmin},
      {"inference.GRPCInferenceService/RepositoryModelUnload", Scope::kAdmin},
      {"inference.GRPCInferenceService/SystemSharedMemoryStatus",
       Scope::kPredict},
      {"inference.GRPCInferenceService/SystemSharedMemoryRegister",
       Scope::kPredict},
      {"inference.GRPCInferenceService/SystemSharedMemoryUnregister",
       Scope::kPredict},
      {"inference.GRPCInferenceService/CudaSharedMemoryStatus",
       Scope::kPredict},
      {"inference.GRPCInferenceService/CudaSharedMemoryRegister",
       Scope::kPredict},
      {"inference.GRPCInferenceService/CudaSharedMemoryUnregister",
       Scope::kPredict},
      {"inference.GRPCInferenceService/TraceSetting", Scope::kAdmin},
      {"inference.GRPCInferenceService/LogSettings", Scope::kAdmin},
  };
  return table;
}

}  // namespace

absl::string_view ScopeName(Scope scope) {
  switch (scope) {
    case Scope::kRead:
      return "read";
    case Scope::kPredict:
      return "predict";
    case Scope::kTrain:
      return "train";
    case Scope::kAdmin:
      return "admin";
    case Scope::kOpen:
      break;
  }
  return "open";
}

absl::StatusOr<Scopes> Scopes::Parse(absl::string_view text) {
  Scopes scopes;
  for (const absl::string_view word : absl::StrSplit(text, ',')) {
    const auto* const found =
        std::find_if(std::begin(kGrantable), std::end(kGrantable),
                     [&](Scope scope) { return ScopeName(scope) == word; });
    if (found == std::end(kGrantable)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "\"", word, "\" is no scope; they are read, predict, train, admin, ",
          "separated by commas"));
    }
    scopes.bits_ |= Bit(*found);
  }
  return scopes;
}

bool Scopes::Has(Scope scope) const { return (bits_ & Bit(scope)) != 0; }

std::string Scopes::ToString() const {
  std::vector<absl::string_view> names;
  for (const Scope scope : kGrantable) {
    if (Has(scope)) names.push_back(ScopeName(scope));
  }
  return absl::StrJoin(names, ",");
}

std::optional<Scope> ScopeOf(absl::string_view method) {
  const auto found = Methods().find(absl::StripPrefix(method, "/"));
  if (found == Methods().end()) return std::nullopt;
  return found->second;
}

}  // namespace recurve::server
