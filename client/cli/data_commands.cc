// datasets.
#include <CLI/CLI.hpp>

#include "absl/strings/str_format.h"
#include "client/cli/session.h"

namespace recurve::cli {
namespace {

absl::Status Datasets(Session& session) {
  const auto datasets = session.client().ListDatasets();
  if (!datasets.ok()) return datasets.status();
  if (session.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const v1::Dataset& dataset : *datasets)
      list.push_back(ToJson(dataset));
    PrintJson({{"datasets", list}});
    return absl::OkStatus();
  }
  for (const v1::Dataset& dataset : *datasets) {
    absl::PrintF("%s  %d bytes, sha256 %s\n", dataset.name(),
                 dataset.size_bytes(), dataset.sha256());
  }
  if (datasets->empty()) absl::PrintF("no datasets\n");
  return absl::OkStatus();
}

}  // namespace

void AddDataCommands(CLI::App& app, Session& session) {
  AddCommand(app, session, "datasets", "Lists the uploaded datasets.",
             "recurve datasets", [&session] { return Datasets(session); });
}

}  // namespace recurve::cli
