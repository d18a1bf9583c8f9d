// versions, alias, load, unload, delete-version: what is done to versions of a
// model.
#include <CLI/CLI.hpp>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/data_files.h"
#include "client/cli/files.h"
#include "client/cli/print_version.h"
#include "client/cli/session.h"

namespace recurve::cli {
namespace {

struct VersionOptions {
  std::string name;
  std::string alias;
  std::string version;
  bool remove = false;
  std::string precision;
  std::string accuracy;
};

// Unspecified for an empty name.
v1::Precision PrecisionOf(const std::string& name) {
  if (name == "fp32") return v1::FLOAT32;
  if (name == "bf16") return v1::BFLOAT16;
  return name == "int8" ? v1::INT8 : v1::PRECISION_UNSPECIFIED;
}

absl::Status Versions(Session& session, const VersionOptions& options) {
  const auto versions =
      session.client().ListModelVersions(ResourceName("models", options.name));
  if (!versions.ok()) return versions.status();
  if (!session.json) {
    for (const v1::ModelVersion& version : *versions) {
      PrintVersion(session, version);
    }
    return absl::OkStatus();
  }
  nlohmann::json list = nlohmann::json::array();
  for (const v1::ModelVersion& version : *versions) {
    list.push_back(ToJson(version));
  }
  PrintJson({{"versions", list}});
  return absl::OkStatus();
}

absl::Status SetAlias(Session& session, const std::string& alias,
                      const std::string& version) {
  const auto model = session.client().SetModelAlias(alias, version);
  if (!model.ok()) return model.status();
  if (session.json) {
    PrintJson(ToJson(*model));
  } else {
    absl::PrintF("%s -> %s\n", alias, version);
  }
  return absl::OkStatus();
}

// `3` is short for version 3 of the model.
std::string VersionName(const std::string& model, const std::string& version) {
  const bool number =
      version.find_first_not_of("0123456789") == std::string::npos;
  return number ? absl::StrCat(model, "/versions/", version)
                : ResourceName("models", version);
}

absl::Status Alias(Session& session, const VersionOptions& options) {
  const std::string model = ResourceName("models", options.name);
  const std::string alias = absl::StrCat(model, "/aliases/", options.alias);
  if (options.remove != options.version.empty()) {
    return absl::InvalidArgumentError(
        "alias: give the version that it is to point at, or --delete");
  }
  if (!options.remove) {
    return SetAlias(session, alias, VersionName(model, options.version));
  }
  const absl::Status deleted = session.client().DeleteModelAlias(alias);
  if (deleted.ok()) PrintDeleted(session, alias);
  return deleted;
}

// With the loss on a file of this machine.
absl::StatusOr<v1::ModelVersion> LoadAndMeasure(
    Session& session, const std::string& data,
    v1::LoadModelVersionRequest& request) {
  Client& client = session.client();
  auto version = client.GetModelVersion(request.name());
  if (!version.ok()) return version.status();
  *request.mutable_accuracy_format() = FormatOfFile(data, *version);
  const absl::Status loaded =
      WithUploadedFile(client, UserPath(data), [&](const std::string& dataset) {
        request.mutable_accuracy_source()->set_dataset(dataset);
        version = client.LoadModelVersion(request);
        return version.status();
      });
  if (!loaded.ok()) return loaded;
  return version;
}

void PrintAccuracy(const v1::PrecisionAccuracy& accuracy) {
  absl::PrintF("loss %.6f, at fp32 %.6f: %+.3f%%\n", accuracy.loss(),
               accuracy.float32_loss(), 100 * accuracy.relative_difference());
}

absl::Status Load(Session& session, const VersionOptions& options) {
  v1::LoadModelVersionRequest request;
  request.set_name(ResourceName("models", options.name));
  request.set_precision(PrecisionOf(options.precision));
  const auto version = options.accuracy.empty()
                           ? session.client().LoadModelVersion(request)
                           : LoadAndMeasure(session, options.accuracy, request);
  if (!version.ok()) return version.status();
  PrintVersion(session, *version);
  if (version->has_accuracy() && !session.json) {
    PrintAccuracy(version->accuracy());
  }
  return absl::OkStatus();
}

absl::Status Unload(Session& session, const VersionOptions& options) {
  const auto version =
      session.client().UnloadModelVersion(ResourceName("models", options.name));
  if (version.ok()) PrintVersion(session, *version);
  return version.status();
}

absl::Status DeleteVersion(Session& session, const VersionOptions& options) {
  const std::string name = ResourceName("models", options.name);
  const absl::Status deleted = session.client().DeleteModelVersion(name);
  if (deleted.ok()) PrintDeleted(session, name);
  return deleted;
}

}  // namespace

void AddVersionCommands(CLI::App& app, Session& session) {
  const auto options = std::make_shared<VersionOptions>();
  const auto add =
      [&](const char* name, const char* description, const char* example,
          const char* takes,
          absl::Status (*action)(Session&, const VersionOptions&)) {
        CLI::App* command = AddCommand(
            app, session, name, description, example,
            [&session, options, action] { return action(session, *options); });
        command->add_option("name", options->name, takes)->required();
        return command;
      };
  constexpr const char* kVersion =
      "model, model/versions/N or model/aliases/ALIAS";

  add("versions", "Lists the versions of a model.", "recurve versions lm",
      "model", &Versions);
  CLI::App* alias =
      add("alias", "Points an alias of a model at one of its versions.",
          "recurve alias lm stable 3", "model", &Alias);
  alias->add_option("alias", options->alias, "as in lm/aliases/stable")
      ->required();
  alias->add_option("version", options->version,
                    "its number, or a name: lm/aliases/canary");
  alias->add_flag("--delete", options->remove, "the alias is to go");
  CLI::App* load = add("load", "Loads a version, to stay on the devices.",
                       "recurve load lm/versions/3 --precision int8 "
                       "--accuracy heldout.txt",
                       kVersion, &Load);
  load->add_option("--precision", options->precision,
                   "of its products: fp32, bf16 or int8; without it, as it is "
                   "served now")
      ->check(CLI::IsMember({"fp32", "bf16", "int8"}));
  load->add_option("--accuracy", options->accuracy,
                   "text, .jsonl or .npy file on this machine: what the "
                   "precision changes of its loss is printed");
  add("unload",
      "Takes no new requests for a version and frees its memory when those "
      "under way and its sessions have ended.",
      "recurve unload lm/versions/2", kVersion, &Unload);
  add("delete-version", "Deletes one version of a model.",
      "recurve delete-version lm/versions/2", "model/versions/N",
      &DeleteVersion);
}

}  // namespace recurve::cli
