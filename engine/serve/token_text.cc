#include "engine/serve/token_text.h"

#include "absl/strings/str_cat.h"
#include "engine/data/vocabulary.h"
#include "kernels/status.h"

namespace recurve {
namespace {

constexpr int64_t kByteTokens = 256;

using Tokenization = v1::DataFormat::Text;

}  // namespace

absl::Status CheckLanguageModel(const ModelVersion& version) {
  const Model& model = *version.model;
  const v1::Output& output = model.config().output();
  if (model.takes_tokens() && !model.bidirectional() &&
      output.pooling() == v1::Output::POOLING_NONE &&
      model.output_size() == model.vocabulary_size()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      version.name,
      " is not a language model: it must take tokens and give one logit for "
      "each token at every step, from the steps before it"));
}

bool HasText(const ModelVersion& version) {
  return !version.vocabulary.empty() ||
         version.model->vocabulary_size() == kByteTokens;
}

absl::StatusOr<std::vector<int32_t>> TokensOf(const ModelVersion& version,
                                              absl::string_view text) {
  if (version.vocabulary.empty()) {
    return Tokenize(text, Tokenization::BYTES, nullptr);
  }
  ASSIGN_OR_RETURN(const Vocabulary vocabulary,
                   Vocabulary::Create(version.vocabulary));
  return Tokenize(text, Tokenization::VOCABULARY, &vocabulary);
}

std::string TextOf(const ModelVersion& version, int32_t token) {
  if (!version.vocabulary.empty()) return version.vocabulary[token];
  if (!HasText(version)) return "";
  return std::string(1, static_cast<char>(token));
}

}  // namespace recurve
