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
  version->host_->in_memory =
      std::make_shared<const ParameterBuffer>(std::move(parameters));
  return version;
}

ModelHandle ModelVersion::At(Precision precision) const {
  if (precision == precision_) return weak_from_this().lock();
  absl::MutexLock lock(&others_->mutex);
  for (const ModelHandle& version : others_->versions) {
    if (version->precision_ == precision) return version;
  }
  std::shared_ptr<ModelVersion> version(new ModelVersion(*this));
  version->precision_ = precision;
  version->others_ = std::make_shared<Others>();  // or it would hold itself
  others_->versions.push_back(version);
  return version;
}

std::vector<ModelHandle> ModelVersion::AtAllPrecisions() const {
  absl::MutexLock lock(&others_->mutex);
  std::vector<ModelHandle> versions = {weak_from_this().lock()};
  versions.insert(versions.end(), others_->versions.begin(),
                  others_->versions.end());
  return versions;
}

absl::StatusOr<std::shared_ptr<const ParameterBuffer>>
ModelVersion::Parameters() const {
  if (host_->in_memory != nullptr) return host_->in_memory;
  absl::MutexLock lock(&host_->mutex);
  if (auto parameters = host_->parameters.lock()) return parameters;
  auto read = ReadParameters(*this);
  if (!read.ok() && deleted()) {
    return absl::NotFoundError(absl::StrCat(name, " was deleted"));
  }
  RETURN_IF_ERROR(read.status());
  auto parameters = std::make_shared<const ParameterBuffer>(*std::move(read));
  host_->parameters = parameters;
  host_->checked = true;
  return parameters;
}

absl::Status ModelVersion::CheckParameters() const {
  if (host_->in_memory != nullptr) return absl::OkStatus();
  if (deleted()) {
    return absl::NotFoundError(absl::StrCat(name, " was deleted"));
  }
  if (!host_->checked) return Parameters().status();
  return CheckWeightsFile(*this);
}

void ModelVersion::KeepParameters() const {
  auto parameters = Parameters();
  if (!parameters.ok()) return;
  absl::MutexLock lock(&host_->mutex);
  host_->kept = *std::move(parameters);
}

}  // namespace recurve
