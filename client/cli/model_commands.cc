// create, import, export, models, describe, delete.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "client/cli/files.h"
#include "client/cli/print_version.h"
#include "client/cli/session.h"

namespace recurve::cli {
namespace {

struct ModelOptions {
  std::string name;
  std::string config;
  std::string weights;
  std::string vocabulary;
  std::string embedding_key;
  std::string output_key;
  std::string out;
  uint64_t seed = 0;
};
using Options = std::shared_ptr<ModelOptions>;

// "  stable -> versions/3, ...", by name.
std::string AliasesOf(const v1::Model& model) {
  const std::map<std::string, std::string> sorted(model.aliases().begin(),
                                                  model.aliases().end());
  std::string text;
  for (const auto& [alias, version] : sorted) {
    const std::string prefix = absl::StrCat(model.name(), "/");
    absl::StrAppend(&text, text.empty() ? "  " : ", ", alias, " -> ",
                    absl::StripPrefix(version, prefix));
  }
  return text;
}

absl::Status Models(Session& session) {
  const auto models = session.client().ListModels();
  if (!models.ok()) return models.status();
  if (session.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const v1::Model& model : *models) list.push_back(ToJson(model));
    PrintJson({{"models", list}});
    return absl::OkStatus();
  }
  for (const v1::Model& model : *models) {
    absl::PrintF("%s  newest %s of %d%s\n", model.name(),
                 model.latest_version(), model.version_count(),
                 AliasesOf(model));
  }
  if (models->empty()) absl::PrintF("no models\n");
  return absl::OkStatus();
}

absl::Status Describe(Session& session, const ModelOptions& options) {
  const auto version =
      session.client().GetModelVersion(ResourceName("models", options.name));
  if (!version.ok()) return version.status();
  PrintVersion(session, *version);
  if (!session.json) {
    if (version->vocabulary_size() > 0) {
      absl::PrintF("vocabulary of %d\n", version->vocabulary_size());
    }
    absl::PrintF("%s", version->config().DebugString());
  }
  return absl::OkStatus();
}

// Reads the config and, where there is one, the vocabulary into a request.
template <typename Request>
absl::Status ReadModelFiles(const ModelOptions& options, Request& request,
                            v1::ModelConfig& config) {
  const absl::Status read = ReadTextProto(UserPath(options.config), config);
  if (!read.ok() || options.vocabulary.empty()) return read;
  const auto vocabulary = ReadVocabulary(UserPath(options.vocabulary));
  if (!vocabulary.ok()) return vocabulary.status();
  request.mutable_vocabulary()->Assign(vocabulary->begin(), vocabulary->end());
  return absl::OkStatus();
}

absl::Status Create(Session& session, const ModelOptions& options) {
  v1::CreateModelRequest request;
  request.set_model_id(options.name);
  request.set_seed(options.seed);
  const absl::Status read =
      ReadModelFiles(options, request, *request.mutable_config());
  if (!read.ok()) return read;
  const auto model = session.client().CreateModel(request);
  if (!model.ok()) return model.status();
  const auto version =
      session.client().GetModelVersion(model->latest_version());
  if (!version.ok()) return version.status();
  PrintVersion(session, *version);
  return absl::OkStatus();
}

absl::Status Import(Session& session, const ModelOptions& options) {
  v1::ImportModelRequest::Header header;
  header.set_model_id(options.name);
  header.set_embedding_key(options.embedding_key);
  header.set_output_key(options.output_key);
  const absl::Status read =
      ReadModelFiles(options, header, *header.mutable_config());
  if (!read.ok()) return read;
  const auto weights = ReadFile(UserPath(options.weights));
  if (!weights.ok()) return weights.status();
  const auto version = session.client().ImportModel(header, *weights);
  if (!version.ok()) return version.status();
  PrintVersion(session, *version);
  return absl::OkStatus();
}

// Receives an export's files into a folder, under the names the server gives.
class FolderWriter {
 public:
  explicit FolderWriter(std::string folder) : folder_(std::move(folder)) {}

  absl::Status Write(const std::string& file_name, absl::string_view chunk) {
    if (!file_name.empty()) {
      const absl::Status opened = Open(file_name);
      if (!opened.ok()) return opened;
    }
    stream_.write(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    return Check();
  }
  absl::Status Finish() {
    if (stream_.is_open()) stream_.close();
    return Check();
  }
  const std::vector<std::string>& paths() const { return paths_; }

 private:
  absl::Status Open(const std::string& file_name) {
    const absl::Status finished = Finish();
    if (!finished.ok()) return finished;
    // A name from the wire must not lead out of the folder.
    const auto name = std::filesystem::path(file_name).filename();
    paths_.push_back((std::filesystem::path(folder_) / name).string());
    stream_.open(paths_.back(), std::ios::binary | std::ios::trunc);
    return Check();
  }
  absl::Status Check() const {
    if (stream_.good()) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("cannot write ", paths_.back()));
  }

  const std::string folder_;
  std::ofstream stream_;
  std::vector<std::string> paths_;
};

absl::Status Export(Session& session, const ModelOptions& options) {
  const std::string folder = UserPath(options.out);
  const absl::Status made = MakeDirectory(folder);
  if (!made.ok()) return made;
  FolderWriter writer(folder);
  const absl::Status received = session.client().ExportModel(
      ResourceName("models", options.name),
      [&](const std::string& file_name, absl::string_view chunk) {
        return writer.Write(file_name, chunk);
      });
  if (!received.ok()) return received;
  const absl::Status finished = writer.Finish();
  if (!finished.ok()) return finished;
  if (session.json) {
    PrintJson({{"files", writer.paths()}});
  } else {
    for (const std::string& path : writer.paths()) absl::PrintF("%s\n", path);
  }
  return absl::OkStatus();
}

absl::Status Delete(Session& session, const ModelOptions& options) {
  const std::string name = ResourceName("models", options.name);
  const absl::Status deleted = session.client().DeleteModel(name);
  if (deleted.ok()) PrintDeleted(session, name);
  return deleted;
}

void AddConfigOptions(CLI::App& command, const Options& options) {
  command.add_option("--config", options->config, "ModelConfig textproto")
      ->required();
  command.add_option("--vocabulary", options->vocabulary,
                     "JSON array of strings, index = token id");
}

}  // namespace

void AddModelCommands(CLI::App& app, Session& session) {
  const Options options = std::make_shared<ModelOptions>();
  const auto bind = [&session, options](
                        absl::Status (*action)(Session&, const ModelOptions&)) {
    return [&session, options, action] { return action(session, *options); };
  };
  const auto add_name = [&options](CLI::App* command, const char* takes) {
    command->add_option("name", options->name, takes)->required();
    return command;
  };
  constexpr const char* kModel = "model";
  constexpr const char* kVersion =
      "model, model/versions/N or model/aliases/ALIAS";

  AddCommand(app, session, "models", "Lists the models.", "recurve models",
             [&session] { return Models(session); });
  add_name(AddCommand(app, session, "describe",
                      "Shows a version's configuration and numbers.",
                      "recurve describe lm", bind(&Describe)),
           kVersion);

  CLI::App* create = add_name(
      AddCommand(app, session, "create", "Makes a model with fresh weights.",
                 "recurve create lm --config lm.textproto --seed 1",
                 bind(&Create)),
      kModel);
  AddConfigOptions(*create, options);
  create->add_option("--seed", options->seed, "seed of the weights");

  CLI::App* import = add_name(
      AddCommand(
          app, session, "import",
          "Imports a .safetensors checkpoint of the libraries sru or "
          "torchqrnn.",
          "recurve import lm --weights lm.safetensors --config lm.textproto "
          "--vocabulary vocab.json",
          bind(&Import)),
      kModel);
  AddConfigOptions(*import, options);
  import->add_option("--weights", options->weights, ".safetensors file")
      ->required();
  import->add_option(
      "--embedding_key", options->embedding_key,
      "key prefix of the embedding, where shapes leave a choice");
  import->add_option("--output_key", options->output_key,
                     "key prefix of the output layer, likewise");

  CLI::App* export_command = add_name(
      AddCommand(
          app, session, "export",
          "Writes model.safetensors with the library's keys, and its config.",
          "recurve export lm --out /tmp/lm", bind(&Export)),
      kVersion);
  export_command->add_option("--out", options->out, "folder to write into")
      ->required();

  add_name(AddCommand(app, session, "delete",
                      "Deletes a model with all its versions.",
                      "recurve delete lm", bind(&Delete)),
           kModel);
}

}  // namespace recurve::cli
