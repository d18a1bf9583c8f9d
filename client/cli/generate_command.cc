// generate: text from a language model, as the server draws it.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/session.h"

namespace recurve::cli {
namespace {

struct GenerateOptions {
  std::string name;
  std::string prompt;
  int length = 200;
  int samples = 1;
  double temperature = 1;
  int top_k = 0;
  double top_p = 1;
  double repetition_penalty = 1;
  std::vector<std::string> stops;
  int log_probabilities = 0;
  std::string session;
  bool start = false;
  CLI::Option* seed_given = nullptr;
  uint64_t seed = 0;
};

v1::GenerateRequest RequestOf(const GenerateOptions& options) {
  v1::GenerateRequest request;
  request.set_model(absl::StartsWith(options.name, "trainers/")
                        ? options.name
                        : ResourceName("models", options.name));
  request.set_text(options.prompt);
  request.set_max_tokens(options.length);
  request.set_n(options.samples);
  v1::SamplingConfig& sampling = *request.mutable_sampling();
  sampling.set_temperature(options.temperature);
  sampling.set_top_k(options.top_k);
  sampling.set_top_p(options.top_p);
  sampling.set_repetition_penalty(options.repetition_penalty);
  if (options.seed_given->count() > 0) sampling.set_seed(options.seed);
  for (const std::string& stop : options.stops) request.add_stop(stop);
  request.set_top_log_probabilities(options.log_probabilities);
  if (!options.session.empty()) {
    request.mutable_session()->set_name(
        ResourceName("sessions", options.session));
    request.mutable_session()->set_start(options.start);
  }
  return request;
}

// What all messages of a generation say together.
struct Result {
  v1::GenerateResponse heading;  // the first one
  // One a sample, all its messages merged: texts one after another.
  std::vector<v1::GenerateResponse> samples;
};

void Add(const v1::GenerateResponse& message, Result& result) {
  if (!message.model_version().empty()) result.heading = message;
  v1::GenerateResponse& sample = result.samples[message.sample()];
  std::string text = sample.text() + message.text();
  sample.MergeFrom(message);
  sample.set_text(std::move(text));
}

void PrintResult(const GenerateOptions& options, const Result& result) {
  nlohmann::json samples = nlohmann::json::array();
  for (const v1::GenerateResponse& sample : result.samples) {
    nlohmann::json object = ToJson(sample);
    for (const char* of_heading : {"model_version", "seed", "sample"}) {
      object.erase(of_heading);
    }
    samples.push_back(std::move(object));
  }
  PrintJson({{"model_version", result.heading.model_version()},
             {"seed", result.heading.seed()},
             {"prompt", options.prompt},
             {"text", result.samples[0].text()},
             {"samples", std::move(samples)}});
}

absl::Status Generate(Session& session, const GenerateOptions& options) {
  if (options.prompt.empty()) {
    return absl::InvalidArgumentError(
        "--prompt is empty; give a character at least");
  }
  Result result;
  result.samples.resize(options.samples);
  // One sample is shown as it comes.
  const bool at_once = !session.json && options.samples == 1;
  const absl::Status status = session.client().Generate(
      RequestOf(options), [&](const v1::GenerateResponse& message) {
        if (message.sample() < 0 || message.sample() >= options.samples) {
          return absl::InternalError("the server sent a sample of no number");
        }
        if (at_once && !message.model_version().empty()) {
          absl::PrintF("%s", options.prompt);
        }
        if (at_once) absl::PrintF("%s", message.text());
        std::fflush(stdout);
        Add(message, result);
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  if (session.json) {
    PrintResult(options, result);
  } else if (at_once) {
    absl::PrintF("\n");
  } else {
    for (size_t i = 0; i < result.samples.size(); ++i) {
      absl::PrintF("%s--- %d\n%s%s\n", i == 0 ? "" : "\n", i, options.prompt,
                   result.samples[i].text());
    }
  }
  return absl::OkStatus();
}

void AddSampling(CLI::App& command, GenerateOptions& options) {
  command
      .add_option("--temperature", options.temperature,
                  "0 = always the most probable")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      .add_option("--top_k", options.top_k,
                  "draws from the K most probable alone; 0 = from all")
      ->check(CLI::NonNegativeNumber);
  command
      .add_option("--top_p", options.top_p,
                  "draws from the most probable that together have this "
                  "probability")
      ->check(CLI::Range(0.0, 1.0));
  command
      .add_option("--repetition_penalty", options.repetition_penalty,
                  "above 1 = what was there already is less probable")
      ->check(CLI::PositiveNumber);
  options.seed_given = command.add_option(
      "--seed", options.seed,
      "of the draws: the same seed, the same text; otherwise another each "
      "time");
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
                   "model, model/versions/N, model/aliases/ALIAS or "
                   "trainers/ID")
      ->required();
  command->add_option("--prompt", options->prompt, "the text to go on from")
      ->required();
  command->add_option("--length", options->length, "tokens to write")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--n", options->samples, "samples")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  AddSampling(*command, *options);
  command
      ->add_option("--stop", options->stops,
                   "the text ends before this; may be given more than once")
      ->allow_extra_args(false);
  command
      ->add_option("--logprobs", options->log_probabilities,
                   "with --json, the K most probable tokens of each step, too")
      ->check(CLI::NonNegativeNumber);
  CLI::Option* name = command->add_option(
      "--session", options->session,
      "goes on from this session, and leaves it after what was written");
  command
      ->add_flag("--start", options->start, "begins the session, from nothing")
      ->needs(name);
}

}  // namespace recurve::cli
