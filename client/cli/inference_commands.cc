// predict, evaluate.
#include <CLI/CLI.hpp>
#include <cstring>
#include <memory>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/data_files.h"
#include "client/cli/files.h"
#include "client/cli/model_lookup.h"
#include "client/cli/session.h"
#include "client/cli/vocabulary.h"

namespace recurve::cli {
namespace {

struct EvaluateOptions {
  std::string name;
  std::string data;
  int64_t chunk = 0;
  bool carry_state = false;
};

struct PredictOptions {
  std::string name;
  std::string text;
  std::vector<int32_t> tokens;
  std::string input;
  int top_k = 0;
  std::string session;
  bool start = false;
  bool end = false;
  std::optional<int64_t> position;
};

absl::Status Evaluate(Session& session, const EvaluateOptions& options) {
  Client& client = session.client();
  const auto version = FindModel(client, options.name);
  if (!version.ok()) return version.status();
  v1::EvaluateRequest request;
  request.set_model(version->name());
  *request.mutable_format() = FormatOfFile(options.data, *version);
  request.set_chunk_rows(options.chunk);
  request.set_carry_state(options.carry_state);
  absl::StatusOr<v1::EvaluateResponse> response;
  const absl::Status evaluated = WithUploadedFile(
      client, UserPath(options.data), [&](const std::string& dataset) {
        request.mutable_source()->set_dataset(dataset);
        response = client.Evaluate(request);
        return response.status();
      });
  if (!evaluated.ok()) return evaluated;
  if (session.json) {
    PrintJson(ToJson(*response));
  } else {
    absl::PrintF("%s  loss %.10f over %d rows, accuracy %.4f\n",
                 response->model_version(), response->loss(), response->rows(),
                 response->accuracy());
  }
  return absl::OkStatus();
}

void SetOneSequence(int64_t rows, v1::SequenceBatch& batch) {
  batch.add_cu_seqlens(0);
  batch.add_cu_seqlens(rows);
}

absl::Status SetInput(const PredictOptions& options,
                      const Vocabulary& vocabulary, v1::SequenceBatch& batch) {
  if (!options.input.empty()) {
    auto features = ReadFeatures(UserPath(options.input));
    if (!features.ok()) return features.status();
    SetOneSequence(features->rows, batch);
    batch.set_features(std::move(features->bytes));
    return absl::OkStatus();
  }
  std::vector<int32_t> tokens = options.tokens;
  if (!options.text.empty()) {
    auto encoded = vocabulary.Encode(options.text);
    if (!encoded.ok()) return encoded.status();
    tokens = *std::move(encoded);
  }
  SetOneSequence(static_cast<int64_t>(tokens.size()), batch);
  batch.mutable_tokens()->Assign(tokens.begin(), tokens.end());
  return absl::OkStatus();
}

std::vector<std::vector<float>> Rows(const std::string& bytes, int64_t rows,
                                     int64_t columns) {
  std::vector<std::vector<float>> matrix(rows, std::vector<float>(columns));
  for (int64_t row = 0; row < rows; ++row) {
    std::memcpy(matrix[row].data(), bytes.data() + row * columns * 4,
                columns * 4);
  }
  return matrix;
}

nlohmann::json PredictionJson(const v1::PredictResponse& response) {
  nlohmann::json object = {{"model_version", response.model_version()},
                           {"rows", response.rows()},
                           {"columns", response.columns()}};
  if (!response.logits().empty()) {
    object["logits"] =
        Rows(response.logits(), response.rows(), response.columns());
  }
  if (response.position() > 0) object["position"] = response.position();
  if (response.top_k_size() == 0) return object;
  object["top_k"] = nlohmann::json::array();
  for (const auto& row : response.top_k())
    object["top_k"].push_back(ToJson(row));
  return object;
}

void PrintTopK(const v1::PredictResponse& response,
               const v1::ModelVersion& version, const Vocabulary& vocabulary) {
  const bool text = ClassesHaveText(version);
  for (int row = 0; row < response.top_k_size(); ++row) {
    const auto& top = response.top_k(row);
    absl::PrintF("%d:", row);
    for (int i = 0; i < top.classes_size(); ++i) {
      const std::string name =
          text ? absl::StrCat(
                     "\"",
                     absl::Utf8SafeCEscape(vocabulary.Decode(top.classes(i))),
                     "\"")
               : absl::StrCat("class ", top.classes(i));
      absl::PrintF("  %s %.4f", name, top.probabilities(i));
    }
    absl::PrintF("\n");
  }
}

void PrintLogits(const v1::PredictResponse& response) {
  const auto rows =
      Rows(response.logits(), response.rows(), response.columns());
  for (size_t row = 0; row < rows.size(); ++row) {
    absl::PrintF("%d:", row);
    for (const float value : rows[row]) absl::PrintF(" %.6g", value);
    absl::PrintF("\n");
  }
}

void SetSession(const PredictOptions& options, v1::PredictRequest& request) {
  if (options.session.empty()) return;
  v1::SessionUse& use = *request.mutable_session();
  use.set_name(ResourceName("sessions", options.session));
  use.set_start(options.start);
  use.set_end(options.end);
  if (options.position) use.set_position(*options.position);
  // One that goes on may be on an older version than the name means now.
  if (!options.start) request.set_model(ResourceName("models", options.name));
}

absl::Status Predict(Session& session, const PredictOptions& options) {
  const auto version = FindModel(session.client(), options.name);
  if (!version.ok()) return version.status();
  const Vocabulary vocabulary(*version);
  v1::PredictRequest request;
  request.set_model(version->name());
  request.set_top_k(options.top_k);
  request.set_want_logits(options.top_k == 0);
  SetSession(options, request);
  const absl::Status input =
      SetInput(options, vocabulary, *request.mutable_batch());
  if (!input.ok()) return input;
  const auto response = session.client().Predict(request);
  if (!response.ok()) return response.status();
  if (options.top_k == 0 &&
      int64_t(response->logits().size()) !=
          response->rows() * response->columns() * int64_t{sizeof(float)}) {
    return absl::InternalError("the server's logits are not rows x columns");
  }
  if (session.json) {
    PrintJson(PredictionJson(*response));
  } else if (options.top_k > 0) {
    PrintTopK(*response, *version, vocabulary);
  } else {
    PrintLogits(*response);
  }
  if (!session.json && request.has_session()) {
    absl::PrintF("%s is at %d\n", request.session().name(),
                 response->position());
  }
  return absl::OkStatus();
}

void AddEvaluate(CLI::App& app, Session& session) {
  const auto options = std::make_shared<EvaluateOptions>();
  CLI::App* command = AddCommand(
      app, session, "evaluate", "Mean loss of a model on a data file.",
      "recurve evaluate lm --data heldout.txt --chunk 1000 --carry_state",
      [&session, options] { return Evaluate(session, *options); });
  command
      ->add_option("name", options->name,
                   "model, model/versions/N or trainers/ID")
      ->required();
  command
      ->add_option("--data", options->data,
                   "text, .jsonl or .npy file on this machine")
      ->required();
  command
      ->add_option("--chunk", options->chunk,
                   "rows of a text at a time; 0 = all")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--carry_state", options->carry_state,
                    "go on from chunk to chunk instead of from zeros");
}

void AddPredict(CLI::App& app, Session& session) {
  const auto options = std::make_shared<PredictOptions>();
  CLI::App* command =
      AddCommand(app, session, "predict", "Predicts on one sequence.",
                 "recurve predict lm --text \"In the beginning\" --top_k 3",
                 [&session, options] { return Predict(session, *options); });
  command
      ->add_option("name", options->name,
                   "model, model/versions/N or trainers/ID")
      ->required();
  CLI::Option_group* input = command->add_option_group("input");
  input->add_option("--text", options->text, "text, by the model's vocabulary");
  input->add_option("--tokens", options->tokens, "token ids, as 1,2,3")
      ->delimiter(',');
  input->add_option("--input", options->input, "float32 [T, I] .npy file");
  input->require_option(1);
  command
      ->add_option("--top_k", options->top_k,
                   "show the K most probable classes; 0 = logits")
      ->check(CLI::NonNegativeNumber);
  CLI::Option* live = command->add_option("--session", options->session,
                                          "goes on where this live session is");
  command->add_flag("--start", options->start, "begins it, from zeros")
      ->needs(live);
  command->add_flag("--end", options->end, "ends it")->needs(live);
  command
      ->add_option("--position", options->position,
                   "rows it has had: the same command again is then answered "
                   "and not applied twice")
      ->check(CLI::NonNegativeNumber)
      ->needs(live);
}

}  // namespace

void AddInferenceCommands(CLI::App& app, Session& session) {
  AddPredict(app, session);
  AddEvaluate(app, session);
}

}  // namespace recurve::cli
