// step: trains by Step calls instead of a job: opens a trainer from a spec,
// sends it the spec's batches in the loader's order and publishes the result.
// The weights are those of `recurve train` with the same spec.
#include <CLI/CLI.hpp>
#include <map>
#include <memory>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "client/cli/data_files.h"
#include "client/cli/files.h"
#include "client/cli/session.h"

namespace recurve::cli {
namespace {

struct StepOptions {
  std::string spec;
  int64_t steps = 0;
};

// Sums over the calls made.
struct StepTotals {
  int64_t batches = 0;
  int64_t rows = 0;
  v1::StepResponse last;
  std::map<std::string, v1::DeviceTime> devices;

  void Add(const v1::StepResponse& response) {
    ++batches;
    rows += response.rows();
    last = response;
    for (const v1::DeviceTime& time : response.devices()) {
      v1::DeviceTime& total = devices[time.device()];
      total.set_device(time.device());
      total.set_micro_batches(total.micro_batches() + time.micro_batches());
      total.set_rows(total.rows() + time.rows());
      total.set_compute_ms(total.compute_ms() + time.compute_ms());
      total.set_exchange_ms(total.exchange_ms() + time.exchange_ms());
      total.set_update_ms(total.update_ms() + time.update_ms());
    }
  }
};

void PrintTotals(const Session& session, const StepTotals& totals,
                 double rows_per_second, const std::string& version) {
  if (session.json) {
    nlohmann::json devices = nlohmann::json::array();
    for (const auto& [name, time] : totals.devices) {
      devices.push_back(ToJson(time));
    }
    return PrintJson({{"model_version", version},
                      {"step", totals.last.step()},
                      {"loss", totals.last.loss()},
                      {"rows", totals.rows},
                      {"rows_per_second", rows_per_second},
                      {"devices", devices}});
  }
  absl::PrintF("%s  step %d  loss %.4f  %.0f rows/s\n", version,
               totals.last.step(), totals.last.loss(), rows_per_second);
  for (const auto& [name, time] : totals.devices) {
    absl::PrintF(
        "%s  %d micro-batches  %d rows  compute %.0f ms  "
        "exchange %.0f ms  update %.0f ms\n",
        name, time.micro_batches(), time.rows(), time.compute_ms(),
        time.exchange_ms(), time.update_ms());
  }
}

absl::Status SendBatch(Client& client, const std::string& trainer,
                       const v1::ReadBatchesResponse& batch,
                       StepTotals& totals) {
  v1::StepRequest request;
  request.set_name(trainer);
  *request.mutable_batch() = batch.batch();
  *request.mutable_targets() = batch.targets();
  request.set_continue_streams(batch.continue_streams());
  const auto response = client.Step(request);
  if (!response.ok()) return response.status();
  totals.Add(*response);
  return absl::OkStatus();
}

absl::Status Step(Session& session, const StepOptions& options) {
  Client& client = session.client();
  auto spec = ReadTrainSpec(client, UserPath(options.spec));
  if (!spec.ok()) return spec.status();
  if (options.steps > 0) spec->set_max_steps(options.steps);

  v1::CreateTrainerRequest create;
  *create.mutable_spec() = *spec;
  const auto trainer = client.CreateTrainer(create);
  if (!trainer.ok()) return trainer.status();
  const auto remove =
      absl::MakeCleanup([&] { (void)client.DeleteTrainer(trainer->name()); });

  StepTotals totals;
  const absl::Time start = absl::Now();
  const absl::Status stepped =
      client.ReadBatches(*spec, [&](const v1::ReadBatchesResponse& batch) {
        return SendBatch(client, trainer->name(), batch, totals);
      });
  if (!stepped.ok()) return stepped;
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);

  v1::PublishTrainerRequest publish;
  publish.set_name(trainer->name());
  const auto published = client.PublishTrainer(publish);
  if (!published.ok()) return published.status();
  PrintTotals(session, totals, static_cast<double>(totals.rows) / seconds,
              published->model_version());
  return absl::OkStatus();
}

}  // namespace

void AddStepCommand(CLI::App& app, Session& session) {
  const auto options = std::make_shared<StepOptions>();
  CLI::App* command =
      AddCommand(app, session, "step",
                 "Trains by sending batches, then publishes the model.",
                 "recurve step --spec lm.textproto --steps 10",
                 [&session, options] { return Step(session, *options); });
  command->add_option("--spec", options->spec, "TrainSpec textproto")
      ->required();
  command
      ->add_option("--steps", options->steps,
                   "optimizer steps, instead of the spec's max_steps")
      ->check(CLI::PositiveNumber);
}

}  // namespace recurve::cli
