#include "engine/serve/model_version.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/serve/version_files.h"
#include "kernels/status.h"

namespace recurve {

ModelHandle ModelVersion::InMemory(std::shared_ptr<const Model> model,
                                   ParameterBuffer parameters, std::string name,
                                   std::vector<std::string> vocabulary) {
  auto version = std::make_shared<ModelVersion>();
  version->name = std::move(name);
  version->vocabulary = std::move(vocabulary);
  version->model = std::move(model);
  version->in_memory_ =
      std::make_shared<const ParameterBuffer>(std::move(parameters));
  return version;
}

absl::StatusOr<std::shared_ptr<const ParameterBuffer>>
ModelVersion::Parameters() const {
  if (in_memory_ != nullptr) return in_memory_;
  absl::MutexLock lock(&mutex_);
  if (auto parameters = parameters_.lock()) return parameters;
  auto read = ReadParameters(*this);
  if (!read.ok() && deleted_) {
    return absl::NotFoundError(absl::StrCat(name, " was deleted"));
  }
  RETURN_IF_ERROR(read.status());
  auto parameters = std::make_shared<const ParameterBuffer>(*std::move(read));
  parameters_ = parameters;
  checked_ = true;
  return parameters;
}

absl::Status ModelVersion::CheckParameters() const {
  if (in_memory_ != nullptr) return absl::OkStatus();
  if (deleted_) return absl::NotFoundError(absl::StrCat(name, " was deleted"));
  if (!checked_) return Parameters().status();
  return CheckWeightsFile(*this);
}

void ModelVersion::KeepParameters() const {
  auto parameters = Parameters();
  if (!parameters.ok()) return;
  absl::MutexLock lock(&mutex_);
  kept_ = *std::move(parameters);
}

}  // namespace recurve
