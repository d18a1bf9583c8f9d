#include "client/cli/plan.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/files.h"
#include "engine/model/model.h"
#include "engine/schedule/format_bytes.h"
#include "engine/schedule/serving_precision.h"
#include "engine/schedule/training_fit.h"
#include "engine/train/trainer_config.h"
#include "kernels/status.h"
#include "proto/recurve/v1/training_config.pb.h"

namespace recurve::cli {
namespace {

constexpr int64_t kDefaultRows = 1024;

// The file as a spec; a ModelConfig as one with nothing but that config.
struct PlanFile {
  v1::TrainSpec spec;
  bool is_spec = false;
};

absl::StatusOr<PlanFile> ReadPlanFile(const std::string& path) {
  PlanFile file;
  const absl::Status as_config =
      ReadTextProto(path, *file.spec.mutable_config());
  if (as_config.ok() || !absl::IsInvalidArgument(as_config)) {
    RETURN_IF_ERROR(as_config);
    return file;
  }
  file.is_spec = true;
  file.spec.Clear();
  const absl::Status as_spec = ReadTextProto(path, file.spec);
  if (!as_spec.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is no ModelConfig (", as_config.message(),
                     ") and no TrainSpec (", as_spec.message(), ")"));
  }
  if (file.spec.has_config()) return file;
  return absl::InvalidArgumentError(absl::StrCat(
      path,
      ": the spec has no config; `recurve describe` shows that of a "
      "version"));
}

// What training would take from the data.
void FillSizes(const PlanOptions& options, v1::ModelConfig& config) {
  v1::Input& input = *config.mutable_input();
  if (input.has_token_embedding() &&
      input.token_embedding().vocabulary_size() == 0) {
    input.mutable_token_embedding()->set_vocabulary_size(
        options.vocabulary_size);
  }
  if (input.has_features() && input.features().size() == 0) {
    input.mutable_features()->set_size(options.feature_size);
  }
  if (config.output().has_linear() && config.output().linear().size() == 0) {
    config.mutable_output()->mutable_linear()->set_size(
        options.output_size > 0 ? options.output_size
                                : input.token_embedding().vocabulary_size());
  }
}

absl::StatusOr<std::shared_ptr<const Model>> MakeModel(
    const PlanOptions& options, v1::ModelConfig config) {
  FillSizes(options, config);
  auto model = Model::Create(config);
  if (model.ok()) return model;
  return absl::Status(
      model.status().code(),
      absl::StrCat(model.status().message(),
                   "; --vocabulary_size, --feature_size and --output_size give "
                   "sizes that training would take from the data"));
}

absl::StatusOr<bool> IsTraining(const PlanOptions& options, bool is_spec) {
  if (options.mode == "training") return true;
  if (options.mode == "inference") return false;
  if (options.mode.empty()) return is_spec;
  return absl::InvalidArgumentError(absl::StrCat(
      "--mode: is \"", options.mode, "\", must be training or inference"));
}

absl::Status FillShape(const PlanOptions& options, const v1::TrainSpec& spec,
                       PlanReport& report) {
  const v1::LoaderConfig& loader = spec.loader();
  const bool known = report.training && loader.unroll() > 0;
  report.sequences = options.sequences > 0 ? options.sequences
                     : known ? std::max<int64_t>(loader.batch_size(), 1)
                             : 1;
  report.rows = options.rows > 0 ? options.rows
                : known          ? report.sequences * loader.unroll()
                                 : kDefaultRows;
  if (options.rows >= 0 && options.sequences >= 0 &&
      report.sequences <= report.rows) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      report.sequences, " sequences of ", report.rows,
      " rows in all: --rows must be at least --sequences, and both positive"));
}

absl::StatusOr<TrainingNeeds> NeedsOf(const v1::TrainSpec& spec,
                                      const PlanReport& report) {
  v1::TrainerConfig config = spec.trainer();
  if (config.optimizer().kind_case() == v1::OptimizerConfig::KIND_NOT_SET) {
    config.mutable_optimizer()->mutable_adam();
    config.mutable_learning_rate()->set_peak(1e-3f);
  }
  ASSIGN_OR_RETURN(config, ResolveTrainerConfig(config));
  const int64_t length =
      (report.rows + report.sequences - 1) / report.sequences;
  TrainingNeeds needs;
  needs.call = {length * report.sequences, report.sequences, length, length};
  needs.micro_batch_rows = config.micro_batch_rows();
  needs.num_moments = NumMoments(MakeOptimizerArgs(config.optimizer()));
  needs.accumulates = config.accumulation_steps() > 1;
  return needs;
}

absl::StatusOr<Precision> InferencePrecision(const PlanOptions& options) {
  const auto precision = ParsePrecision(options.precision);
  if (precision.ok()) return precision;
  return absl::InvalidArgumentError(
      absl::StrCat("--precision: ", precision.status().message()));
}

absl::Status PlanInference(const Model& model, const PlanOptions& options,
                           PlanReport& report) {
  ASSIGN_OR_RETURN(const Precision precision, InferencePrecision(options));
  std::vector<DeviceSpec> specs;
  for (DevicePlan& device : report.devices) {
    specs.push_back(device.spec);
    device.takes_part = Serves(device.spec, precision);
    if (!device.takes_part) continue;
    device.plan = InferencePlan(model, {report.rows, report.sequences},
                                device.spec.kind, precision) +
                  WorkspacePlan(device.spec);
  }
  return CheckServes(specs, precision);
}

absl::Status PlanTraining(const Model& model, const v1::TrainSpec& spec,
                          PlanReport& report) {
  ASSIGN_OR_RETURN(const TrainingNeeds needs, NeedsOf(spec, report));
  report.rows = needs.call.rows;
  report.micro_batch_rows = needs.micro_batch_rows;
  report.micro_batches = MostMicroBatches(needs.call, needs.micro_batch_rows);
  std::vector<DeviceSpec> specs;
  for (const DevicePlan& device : report.devices) specs.push_back(device.spec);
  const std::vector<int> candidates = TrainingDevices(specs);
  std::vector<DeviceBudget> budgets;
  for (const int rank : candidates) {
    const DevicePlan& device = report.devices[rank];
    budgets.push_back({.name = absl::StrCat("devices/", rank),
                       .bytes = device.spec.memory_bytes,
                       .workspace = WorkspacePlan(device.spec).total(),
                       .serving_floor = device.serving_floor});
  }
  ASSIGN_OR_RETURN(const std::vector<int> members,
                   FittingDevices(model, needs, budgets));
  for (DevicePlan& device : report.devices) device.takes_part = false;
  const int world_size = static_cast<int>(members.size());
  for (int rank = 0; rank < world_size; ++rank) {
    DevicePlan& device = report.devices[candidates[members[rank]]];
    device.takes_part = true;
    device.plan = TrainingPlan(model, needs, rank, world_size) +
                  WorkspacePlan(device.spec);
  }
  return absl::OkStatus();
}

// One line: a name, then a value a device.
template <typename Value>
std::string Line(const PlanReport& report, const std::string& name,
                 const Value& value) {
  std::string line = absl::StrFormat("%-12s", name);
  for (const DevicePlan& device : report.devices) {
    absl::StrAppendFormat(&line, "  %20s", value(device));
  }
  return line + "\n";
}

std::string Budget(const DevicePlan& device) {
  const int64_t budget = device.spec.memory_bytes - device.serving_floor;
  if (!device.takes_part) return "takes no part";
  if (budget == 0) return "not limited";
  return absl::StrCat(FormatBytes(budget),
                      device.plan.total() > budget ? " exceeded" : "");
}

}  // namespace

absl::StatusOr<PlanReport> MakePlan(const PlanOptions& options) {
  ASSIGN_OR_RETURN(const PlanFile file, ReadPlanFile(options.file));
  ASSIGN_OR_RETURN(const auto model, MakeModel(options, file.spec.config()));
  ASSIGN_OR_RETURN(const auto specs, ParseDevices(options.devices));
  PlanReport report;
  ASSIGN_OR_RETURN(report.training, IsTraining(options, file.is_spec));
  RETURN_IF_ERROR(FillShape(options, file.spec, report));
  for (const DeviceSpec& spec : specs) {
    report.devices.push_back({.spec = spec});
    if (!report.training) continue;
    report.devices.back().serving_floor =
        ServingFloor(spec, options.serving_memory_share);
  }
  RETURN_IF_ERROR(report.training ? PlanTraining(*model, file.spec, report)
                                  : PlanInference(*model, options, report));
  return report;
}

std::string ToText(const PlanReport& report) {
  std::string text =
      absl::StrCat(report.training ? "training" : "inference", ": ",
                   report.rows, " rows in ", report.sequences,
                   report.sequences == 1 ? " sequence" : " sequences");
  if (report.training) {
    absl::StrAppend(
        &text, " a call, at most ", report.micro_batches,
        report.micro_batches == 1 ? " micro-batch" : " micro-batches", " of ",
        report.micro_batch_rows, " rows");
  }
  text += "\n\n";
  int64_t index = 0;
  text += Line(report, "", [&](const DevicePlan&) {
    return absl::StrCat("devices/", index++);
  });
  const size_t kinds = Terms({}).size();
  for (size_t k = 0; k < kinds; ++k) {
    text += Line(report, Terms({})[k].kind, [&](const DevicePlan& device) {
      return FormatBytes(Terms(device.plan)[k].bytes);
    });
  }
  text += Line(report, "total", [](const DevicePlan& device) {
    return FormatBytes(device.plan.total());
  });
  return text + Line(report, "budget", Budget);
}

nlohmann::json ToJson(const PlanReport& report) {
  nlohmann::json devices = nlohmann::json::array();
  for (const DevicePlan& device : report.devices) {
    nlohmann::json plan;
    for (const MemoryTerm& term : Terms(device.plan)) {
      plan[absl::StrCat(term.kind, "_bytes")] = term.bytes;
    }
    devices.push_back({{"name", absl::StrCat("devices/", devices.size())},
                       {"spec", device.spec.text},
                       {"takes_part", device.takes_part},
                       {"planned", plan},
                       {"planned_bytes", device.plan.total()},
                       {"budget_bytes", device.spec.memory_bytes},
                       {"serving_floor_bytes", device.serving_floor}});
  }
  nlohmann::json json = {{"mode", report.training ? "training" : "inference"},
                         {"rows", report.rows},
                         {"sequences", report.sequences},
                         {"devices", devices}};
  if (report.training) {
    json["micro_batch_rows"] = report.micro_batch_rows;
    json["micro_batches"] = report.micro_batches;
  }
  return json;
}

}  // namespace recurve::cli
