// generate: text from a language model, token by token over Predict, with the
// recurrent state going back and forth.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/model_lookup.h"
#include "client/cli/session.h"
#include "client/cli/vocabulary.h"
#include "client/cpp/sampler.h"

namespace recurve::cli {
namespace {

struct GenerateOptions {
  std::string name;
  std::string prompt;
  int length = 200;
  double temperature = 1;
  uint64_t seed = 0;
};

// Feeds tokens and keeps the state and the logits of the last step.
class Stream {
 public:
  Stream(Client& client, const std::string& version) : client_(client) {
    request_.set_model(version);
    request_.set_want_logits(true);
    request_.set_want_state(true);
  }

  absl::Status Feed(absl::Span<const int32_t> tokens) {
    v1::SequenceBatch& batch = *request_.mutable_batch();
    batch.Clear();
    batch.add_cu_seqlens(0);
    batch.add_cu_seqlens(static_cast<int64_t>(tokens.size()));
    batch.mutable_tokens()->Assign(tokens.begin(), tokens.end());
    auto response = client_.Predict(request_);
    if (!response.ok()) return response.status();
    logits_.resize(response->columns());
    const size_t bytes = logits_.size() * sizeof(float);
    if (bytes == 0 || response->logits().size() < bytes) {
      return absl::InternalError("the server sent no logits");
    }
    std::memcpy(logits_.data(),
                response->logits().data() + response->logits().size() - bytes,
                bytes);
    request_.set_state(std::move(*response->mutable_state()));
    return absl::OkStatus();
  }
  absl::Span<const float> logits() const { return logits_; }

 private:
  Client& client_;
  v1::PredictRequest request_;
  std::vector<float> logits_;
};

absl::Status Check(const v1::ModelVersion& version,
                   const GenerateOptions& options) {
  if (!IsLanguageModel(version.config())) {
    return absl::FailedPreconditionError(
        absl::StrCat(version.name(),
                     " is not a language model: it must take tokens and give "
                     "one logit a token of its vocabulary at each step"));
  }
  if (options.prompt.empty()) {
    return absl::InvalidArgumentError(
        "--prompt is empty; give a character at least");
  }
  return absl::OkStatus();
}

absl::Status Generate(Session& session, const GenerateOptions& options) {
  const auto version = FindModel(session.client(), options.name);
  if (!version.ok()) return version.status();
  const absl::Status checked = Check(*version, options);
  if (!checked.ok()) return checked;
  const Vocabulary vocabulary(*version);
  auto tokens = vocabulary.Encode(options.prompt);
  if (!tokens.ok()) return tokens.status();

  Stream stream(session.client(), version->name());
  Sampler sampler(options.temperature, options.seed);
  std::string text;
  if (!session.json) absl::PrintF("%s", options.prompt);
  for (int i = 0; i < options.length; ++i) {
    const absl::Status fed = stream.Feed(*tokens);
    if (!fed.ok()) return fed;
    tokens->assign(1, sampler.Draw(stream.logits()));
    const std::string word = vocabulary.Decode(tokens->front());
    text += word;
    if (session.json) continue;
    absl::PrintF("%s", word);
    std::fflush(stdout);
  }
  if (session.json) {
    PrintJson({{"model_version", version->name()},
               {"prompt", options.prompt},
               {"text", text}});
  } else {
    absl::PrintF("\n");
  }
  return absl::OkStatus();
}

}  // namespace

void AddGenerateCommand(CLI::App& app, Session& session) {
  const auto options = std::make_shared<GenerateOptions>();
  CLI::App* command = AddCommand(
      app, session, "generate", "Writes text with a language model.",
      "recurve generate lm --prompt \"In the\" --length 200 --temperature 0.7",
      [&session, options] { return Generate(session, *options); });
  command
      ->add_option("name", options->name,
                   "model, model/versions/N or trainers/ID")
      ->required();
  command->add_option("--prompt", options->prompt, "the text to go on from")
      ->required();
  command->add_option("--length", options->length, "tokens to write")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command
      ->add_option("--temperature", options->temperature,
                   "0 = always the most probable")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--seed", options->seed,
                      "of the draws: the same seed, the same text");
}

}  // namespace recurve::cli
