#include "engine/data/dataset.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/data/arrays.h"
#include "engine/data/json_lines.h"
#include "kernels/status.h"

namespace recurve {
namespace {

absl::Status CheckText(const TextDataset& text, const Model& model) {
  if (!model.takes_tokens()) {
    return absl::InvalidArgumentError(
        "data: text, but the model's input is features");
  }
  if (model.pools() ||
      model.config().loss().kind() != v1::Loss::CROSS_ENTROPY) {
    return absl::InvalidArgumentError(
        "data: text is for next-token prediction, which needs output.pooling "
        "NONE and loss CROSS_ENTROPY");
  }
  const int64_t limit = std::min(model.vocabulary_size(), model.output_size());
  for (size_t i = 0; i < text.tokens.size(); ++i) {
    if (text.tokens[i] < limit) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("data: token ", text.tokens[i], " at place ", i,
                     "; the model has ", model.vocabulary_size(),
                     " tokens and ", model.output_size(), " outputs"));
  }
  return absl::OkStatus();
}

absl::Status CheckInputKind(const SequenceDataset& data, const Model& model) {
  const bool tokens = data.feature_size == 0;
  if (tokens != model.takes_tokens()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: ", tokens ? "tokens" : "features",
                     "; the model takes ", tokens ? "features" : "tokens"));
  }
  if (data.feature_size != model.feature_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: features of size ", data.feature_size,
                     "; the model's have ", model.feature_size()));
  }
  return absl::OkStatus();
}

absl::Status CheckTargetKind(const SequenceDataset& data, const Model& model) {
  if (data.per_step == model.pools()) {
    return absl::InvalidArgumentError(
        data.per_step
            ? "data: a target a step, but the model's output is pooled"
            : "data: a target a sequence, but the model has an output a step "
              "(output.pooling NONE)");
  }
  if (data.target_size > 0 && data.target_size != model.output_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("data: targets of size ", data.target_size,
                     "; the model has ", model.output_size(), " outputs"));
  }
  return absl::OkStatus();
}

absl::Status CheckSequences(const SequenceDataset& data, const Model& model) {
  RETURN_IF_ERROR(CheckInputKind(data, model));
  RETURN_IF_ERROR(CheckTargetKind(data, model));
  RETURN_IF_ERROR(
      model.CheckBatch(data.sequences, /*allow_empty_sequences=*/false));
  return model.CheckTargets(data.sequences, data.targets);
}

absl::StatusOr<TextDataset> ParseText(absl::string_view bytes,
                                      const v1::DataFormat::Text& format,
                                      const Vocabulary* vocabulary) {
  TextDataset text;
  ASSIGN_OR_RETURN(text.tokens,
                   Tokenize(bytes, format.tokenization(), vocabulary));
  return text;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> VocabularyOfText(
    absl::string_view text, const v1::DataFormat::Text& format) {
  switch (format.tokenization()) {
    case v1::DataFormat::Text::BYTES:
      return std::vector<std::string>();
    case v1::DataFormat::Text::VOCABULARY:
      return absl::InvalidArgumentError(
          "format.text.tokenization: VOCABULARY needs a model that has a "
          "vocabulary; create it first, then train it without `config`");
    default:
      ASSIGN_OR_RETURN(const Vocabulary vocabulary,
                       Vocabulary::OfCharacters(text));
      return vocabulary.tokens();
  }
}

absl::StatusOr<DataFiles> ReadDataFiles(const DatasetStore& store,
                                        const v1::DataSource& source,
                                        const v1::DataFormat& format) {
  DataFiles files;
  ASSIGN_OR_RETURN(files.data, store.Read(source));
  if (!format.npy().has_targets()) return files;
  ASSIGN_OR_RETURN(files.targets, store.Read(format.npy().targets()));
  if (files.targets.empty()) {
    return absl::InvalidArgumentError("format.npy.targets: an empty file");
  }
  return files;
}

absl::StatusOr<Dataset> ParseDataset(const DataFiles& files,
                                     const v1::DataFormat& format,
                                     const Vocabulary* vocabulary) {
  switch (format.format_case()) {
    case v1::DataFormat::kText:
      return ParseText(files.data, format.text(), vocabulary);
    case v1::DataFormat::kJsonLines:
      return ParseJsonLines(files.data);
    case v1::DataFormat::kNpy:
      return ParseArrays(files.data, files.targets);
    case v1::DataFormat::FORMAT_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError(
      "format: one of text, json_lines and npy must be set");
}

absl::StatusOr<Dataset> ReadDataset(const DatasetStore& store,
                                    const v1::DataSource& source,
                                    const v1::DataFormat& format,
                                    const Vocabulary* vocabulary) {
  ASSIGN_OR_RETURN(const DataFiles files, ReadDataFiles(store, source, format));
  return ParseDataset(files, format, vocabulary);
}

absl::Status CheckDataset(const Dataset& dataset, const Model& model) {
  if (const auto* text = std::get_if<TextDataset>(&dataset)) {
    return CheckText(*text, model);
  }
  return CheckSequences(std::get<SequenceDataset>(dataset), model);
}

}  // namespace recurve
