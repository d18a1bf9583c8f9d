// step: trains by Step calls instead of a job: opens a trainer from a spec,
// sends it the spec's batches in the loader's order and publishes the result.
// The weights are those of `recurve train` with the same spec, whatever
// restarts of the server come in between.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "client/cli/data_files.h"
#include "client/cli/files.h"
#include "client/cli/session.h"

namespace recurve::cli {
namespace {

// How long a server that is away, or a trainer that another client has, is
// waited for before a call is given up: long enough for a restart.
constexpr int kRepeats = 60;
constexpr absl::Duration kRepeatPause = absl::Milliseconds(500);

struct StepOptions {
  std::string spec;
  int64_t steps = 0;
  std::string trainer;  // empty: one of its own, deleted at the end
  int64_t save_every_calls = 0;
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

// Whether the call may succeed if it is made again, the server having come back
// or the trainer being free.
bool WorthRepeating(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsAborted(status);
}

// Sends a spec's batches to a trainer as its calls number 1, 2, 3, ... A server
// that goes away and comes back is sent on from where its trainer then is.
class BatchSender {
 public:
  BatchSender(Client& client, const v1::TrainSpec& spec, std::string trainer)
      : client_(client), spec_(spec), trainer_(std::move(trainer)) {}

  absl::Status SendAll() {
    absl::Status sent = SendRest();
    for (repeats_ = 0; WorthRepeating(sent) && repeats_ < kRepeats;) {
      ++repeats_;
      absl::SleepFor(kRepeatPause);
      sent = SendRest();
    }
    return sent;
  }
  const StepTotals& totals() const { return totals_; }

 private:
  // From the first batch that was not answered, or that the trainer has lost.
  absl::Status SendRest() {
    const auto trainer = client_.GetTrainer(trainer_);
    if (!trainer.ok()) return trainer.status();
    if (!answered_.has_value()) answered_ = trainer->last_number();
    const int64_t done = std::min(*answered_, trainer->last_number());
    int64_t number = 0;
    return client_.ReadBatches(
        spec_, [&](const v1::ReadBatchesResponse& batch) {
          return ++number <= done ? absl::OkStatus() : Send(number, batch);
        });
  }

  absl::Status Send(int64_t number, const v1::ReadBatchesResponse& batch) {
    v1::StepRequest request;
    request.set_name(trainer_);
    request.set_number(number);
    *request.mutable_batch() = batch.batch();
    *request.mutable_targets() = batch.targets();
    request.set_continue_streams(batch.continue_streams());
    const auto response = client_.Step(request);
    if (!response.ok()) return response.status();
    repeats_ = 0;
    if (number <= *answered_) return absl::OkStatus();  // counted before
    answered_ = number;
    totals_.Add(*response);
    return absl::OkStatus();
  }

  Client& client_;
  const v1::TrainSpec& spec_;
  const std::string trainer_;
  std::optional<int64_t> answered_;  // the last call whose reply has come
  int repeats_ = 0;                  // since a call was answered
  StepTotals totals_;
};

absl::Status CheckModel(const v1::Trainer& trainer, const v1::TrainSpec& spec) {
  if (trainer.model() == spec.model()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "--trainer: %s trains %s, not the spec's %s; another name makes a new "
      "trainer",
      trainer.name(), trainer.model(), spec.model()));
}

// The trainer that the options name, made from the spec if need be.
absl::StatusOr<std::string> OpenTrainer(Client& client,
                                        const v1::TrainSpec& spec,
                                        const StepOptions& options) {
  if (!options.trainer.empty()) {
    const auto there =
        client.GetTrainer(ResourceName("trainers", options.trainer));
    if (there.ok()) {
      const absl::Status fits = CheckModel(*there, spec);
      if (!fits.ok()) return fits;
      return there->name();
    }
    if (!absl::IsNotFound(there.status())) return there.status();
  }
  v1::CreateTrainerRequest create;
  *create.mutable_spec() = spec;
  create.set_save_every_calls(options.save_every_calls);
  if (!options.trainer.empty()) {
    absl::string_view id = options.trainer;
    absl::ConsumePrefix(&id, "trainers/");
    create.set_trainer_id(std::string(id));
  }
  const auto trainer = client.CreateTrainer(create);
  if (!trainer.ok()) return trainer.status();
  return trainer->name();
}

absl::Status Step(Session& session, const StepOptions& options) {
  Client& client = session.client();
  auto spec = ReadTrainSpec(client, UserPath(options.spec));
  if (!spec.ok()) return spec.status();
  if (options.steps > 0) spec->set_max_steps(options.steps);

  const auto trainer = OpenTrainer(client, *spec, options);
  if (!trainer.ok()) return trainer.status();
  const auto remove = absl::MakeCleanup([&] {
    if (options.trainer.empty()) (void)client.DeleteTrainer(*trainer);
  });

  BatchSender sender(client, *spec, *trainer);
  const absl::Time start = absl::Now();
  const absl::Status sent = sender.SendAll();
  if (!sent.ok()) return sent;
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  if (sender.totals().batches == 0) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s has had all batches of these steps; a larger --steps or max_steps "
        "goes on, `recurve publish %s` makes a version of it as it is",
        *trainer, *trainer));
  }

  v1::PublishTrainerRequest publish;
  publish.set_name(*trainer);
  const auto published = client.PublishTrainer(publish);
  if (!published.ok()) return published.status();
  const StepTotals& totals = sender.totals();
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
                   "the optimizer step to end at, instead of the spec's "
                   "max_steps")
      ->check(CLI::PositiveNumber);
  command->add_option("--trainer", options->trainer,
                      "trainer to go on with, or to make; it stays");
  command
      ->add_option("--save_every_calls", options->save_every_calls,
                   "for a new trainer: put on disk after so many calls; 0 = "
                   "from time to time")
      ->check(CLI::NonNegativeNumber);
}

}  // namespace recurve::cli
