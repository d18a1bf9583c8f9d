#include "engine/serve/version_contents.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "engine/base/finite.h"
#include "engine/data/vocabulary.h"
#include "engine/model/safetensors.h"
#include "kernels/status.h"

namespace recurve {
namespace {

absl::Status CheckVocabulary(const Model& model,
                             const std::vector<std::string>& vocabulary) {
  if (vocabulary.empty()) return absl::OkStatus();
  const int64_t size = static_cast<int64_t>(vocabulary.size());
  if (size != model.vocabulary_size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "vocabulary: has ", size, " tokens, the model's input takes ",
        model.vocabulary_size()));
  }
  return Vocabulary::Create(vocabulary).status();
}

absl::Status WithoutPath(const absl::Status& status, absl::string_view path) {
  return absl::Status(
      status.code(),
      absl::StripPrefix(status.message(), absl::StrCat(path, ": ")));
}

}  // namespace

absl::Status CheckContents(const VersionContents& contents) {
  const int64_t size = static_cast<int64_t>(contents.parameters.size());
  const ParameterLayout& layout = contents.model->parameters();
  if (size != layout.buffer_size()) {
    return absl::InvalidArgumentError(absl::StrCat("parameters: ", size,
                                                   " numbers, the model has ",
                                                   layout.buffer_size()));
  }
  for (const Parameter& parameter : layout.parameters()) {
    if (!AllFinite({contents.parameters.data() + parameter.offset,
                    static_cast<size_t>(parameter.count())})) {
      return absl::FailedPreconditionError(
          absl::StrCat("a number of ", parameter.name, " is NaN or infinite"));
    }
  }
  return CheckVocabulary(*contents.model, contents.vocabulary);
}

absl::StatusOr<VersionContents> ReadImport(const ImportContents& contents) {
  VersionContents version;
  ASSIGN_OR_RETURN(version.model, Model::Create(contents.config));
  RETURN_IF_ERROR(CheckVocabulary(*version.model, contents.vocabulary));
  const absl::StatusOr<Safetensors> file = Safetensors::Open(contents.path);
  if (!file.ok()) return WithoutPath(file.status(), contents.path);
  ASSIGN_OR_RETURN(
      ImportedModel imported,
      ImportLibrary(*version.model, file->tensors(), contents.options));
  version.parameters = std::move(imported.parameters);
  version.names = std::move(imported.names);
  version.vocabulary = contents.vocabulary;
  version.source = "imported";
  version.request_id = contents.request_id;
  return version;
}

}  // namespace recurve
