// plan.
#include <CLI/CLI.hpp>
#include <memory>

#include "absl/strings/str_format.h"
#include "client/cli/files.h"
#include "client/cli/plan.h"
#include "client/cli/session.h"

namespace recurve::cli {
namespace {

absl::Status Plan(const Session& session, PlanOptions options) {
  options.file = UserPath(options.file);
  const auto report = MakePlan(options);
  if (!report.ok()) return report.status();
  if (session.json) {
    PrintJson(ToJson(*report));
  } else {
    absl::PrintF("%s", ToText(*report));
  }
  return absl::OkStatus();
}

}  // namespace

void AddPlanCommand(CLI::App& app, Session& session) {
  const auto options = std::make_shared<PlanOptions>();
  CLI::App* plan =
      AddCommand(app, session, "plan",
                 "Shows the memory that a model needs, without a server.",
                 "recurve plan lm.textproto --devices cpu:2:memory=2GiB,cpu:1",
                 [&session, options] { return Plan(session, *options); });
  plan->add_option("file", options->file, "ModelConfig or TrainSpec textproto")
      ->required();
  plan->add_option("--mode", options->mode,
                   "training or inference; a TrainSpec's is training")
      ->check(CLI::IsMember({"training", "inference"}));
  const auto size = [plan](const char* name, auto& value, const char* text) {
    plan->add_option(name, value, text)->check(CLI::PositiveNumber);
  };
  size("--rows", options->rows,
       "rows of a call in training, of a pass at inference");
  size("--sequences", options->sequences, "sequences of the same");
  size("--vocabulary_size", options->vocabulary_size,
       "where the file leaves it to the data");
  size("--feature_size", options->feature_size, "the same");
  size("--output_size", options->output_size,
       "the same; else the vocabulary's");
  plan->add_option("--precision", options->precision,
                   "of inference: fp32, bf16 or int8")
      ->capture_default_str();
  plan->add_option("--devices", options->devices, "as the server's --devices")
      ->capture_default_str();
  plan->add_option("--serving_memory_share", options->serving_memory_share,
                   "as the server's --serving_memory_share")
      ->check(CLI::Range(0.0, kMaxServingMemoryShare))
      ->capture_default_str();
}

}  // namespace recurve::cli
