// datasets, delete-dataset.
#include <CLI/CLI.hpp>
#include <memory>

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

absl::Status DeleteDataset(Session& session, const std::string& id) {
  const std::string name = ResourceName("datasets", id);
  const absl::Status deleted = session.client().DeleteDataset(name);
  if (deleted.ok()) PrintDeleted(session, name);
  return deleted;
}

}  // namespace

void AddDataCommands(CLI::App& app, Session& session) {
  AddCommand(app, session, "datasets", "Lists the uploaded datasets.",
             "recurve datasets", [&session] { return Datasets(session); });
  const auto dataset = std::make_shared<std::string>();
  AddCommand(app, session, "delete-dataset",
             "Deletes a dataset; jobs that have yet to read it fail.",
             "recurve delete-dataset my-data",
             [&session, dataset] { return DeleteDataset(session, *dataset); })
      ->add_option("dataset", *dataset, "the dataset")
      ->required();
}

}  // namespace recurve::cli
