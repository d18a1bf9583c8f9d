#include "engine/serve/model_exchange.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kernels/status.h"

namespace recurve {

absl::StatusOr<TrainableModel> RegistryExchange::Load(absl::string_view name) {
  ASSIGN_OR_RETURN(const ModelHandle version, registry_.Get(name));
  ASSIGN_OR_RETURN(const auto parameters, version->Parameters());
  return TrainableModel{version->model, version->vocabulary, *parameters};
}

absl::StatusOr<std::string> RegistryExchange::Publish(
    absl::string_view model_name, const TrainableModel& model,
    absl::string_view source, absl::string_view request_id) {
  absl::string_view id = model_name;
  if (!absl::ConsumePrefix(&id, "models/")) {
    return absl::InvalidArgumentError(
        absl::StrCat("model: \"", model_name, "\" is not models/ID"));
  }
  VersionContents contents;
  contents.model = model.model;
  contents.parameters = model.parameters;
  contents.vocabulary = model.vocabulary;
  contents.source = std::string(source);
  contents.request_id = std::string(request_id);
  ASSIGN_OR_RETURN(const ModelHandle version,
                   registry_.Publish(std::string(id), std::move(contents)));
  return version->name;
}

}  // namespace recurve
