#include "server/services/read_source.h"

#include <optional>

#include "engine/data/vocabulary.h"
#include "kernels/status.h"

namespace recurve::server {

absl::StatusOr<Dataset> ReadSource(const Engine& engine,
                                   const ModelVersion& version,
                                   const v1::DataSource& source,
                                   v1::DataFormat format) {
  if (format.format_case() == v1::DataFormat::FORMAT_NOT_SET) {
    format.mutable_text();
  }
  std::optional<Vocabulary> vocabulary;
  if (!version.vocabulary.empty()) {
    ASSIGN_OR_RETURN(vocabulary, Vocabulary::Create(version.vocabulary));
  }
  return ReadDataset(*engine.datasets, source, format,
                     vocabulary.has_value() ? &*vocabulary : nullptr);
}

}  // namespace recurve::server
