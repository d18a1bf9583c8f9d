// trainers, checkpoints, save-trainer, load-trainer, publish, delete-trainer.
#include <CLI/CLI.hpp>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/session.h"

namespace recurve::cli {
namespace {

struct TrainerOptions {
  std::string name;
  std::string checkpoint;
  std::string request_id;
  bool weights_only = false;

  std::string trainer() const { return ResourceName("trainers", name); }
};
using Options = std::shared_ptr<TrainerOptions>;

void PrintTrainer(const Session& session, const v1::Trainer& trainer) {
  if (session.json) return PrintJson(ToJson(trainer));
  absl::PrintF("%s  %s  step %d  call %d  saved at step %d, call %d  %s\n",
               trainer.name(), trainer.model(), trainer.step(),
               trainer.last_number(), trainer.saved_step(),
               trainer.saved_number(),
               trainer.loaded() ? "in memory" : "on disk");
}

void PrintCheckpoint(const v1::TrainerCheckpoint& checkpoint) {
  absl::PrintF("%s  step %d  call %d  %d bytes\n",
               checkpoint.name().empty() ? "saved" : checkpoint.name(),
               checkpoint.step(), checkpoint.last_number(),
               checkpoint.size_bytes());
}

absl::Status Trainers(Session& session) {
  const auto trainers = session.client().ListTrainers();
  if (!trainers.ok()) return trainers.status();
  if (session.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const v1::Trainer& trainer : *trainers) {
      list.push_back(ToJson(trainer));
    }
    PrintJson({{"trainers", list}});
    return absl::OkStatus();
  }
  for (const v1::Trainer& trainer : *trainers) PrintTrainer(session, trainer);
  if (trainers->empty()) absl::PrintF("no trainers\n");
  return absl::OkStatus();
}

absl::Status Checkpoints(Session& session, const TrainerOptions& options) {
  const auto list = session.client().ListTrainerCheckpoints(options.trainer());
  if (!list.ok()) return list.status();
  if (session.json) {
    PrintJson(ToJson(*list));
    return absl::OkStatus();
  }
  for (const auto& checkpoint : list->checkpoints()) {
    PrintCheckpoint(checkpoint);
  }
  if (list->checkpoints().empty()) absl::PrintF("no checkpoints\n");
  return absl::OkStatus();
}

absl::Status Save(Session& session, const TrainerOptions& options) {
  v1::SaveTrainerRequest request;
  request.set_name(options.trainer());
  request.set_checkpoint_id(options.checkpoint);
  const auto checkpoint = session.client().SaveTrainer(request);
  if (!checkpoint.ok()) return checkpoint.status();
  if (session.json) {
    PrintJson(ToJson(*checkpoint));
  } else {
    PrintCheckpoint(*checkpoint);
  }
  return absl::OkStatus();
}

absl::Status Load(Session& session, const TrainerOptions& options) {
  v1::LoadTrainerRequest request;
  request.set_name(options.trainer());
  // A short name is one of the trainer's own.
  request.set_checkpoint(absl::StrContains(options.checkpoint, '/')
                             ? options.checkpoint
                             : absl::StrCat(options.trainer(), "/checkpoints/",
                                            options.checkpoint));
  request.set_weights_only(options.weights_only);
  const auto trainer = session.client().LoadTrainer(request);
  if (!trainer.ok()) return trainer.status();
  PrintTrainer(session, *trainer);
  return absl::OkStatus();
}

absl::Status Publish(Session& session, const TrainerOptions& options) {
  v1::PublishTrainerRequest request;
  request.set_name(options.trainer());
  request.set_request_id(options.request_id);
  const auto published = session.client().PublishTrainer(request);
  if (!published.ok()) return published.status();
  if (session.json) {
    PrintJson(ToJson(*published));
  } else {
    absl::PrintF("%s\n", published->model_version());
  }
  return absl::OkStatus();
}

absl::Status Delete(Session& session, const TrainerOptions& options) {
  const absl::Status deleted =
      session.client().DeleteTrainer(options.trainer());
  if (deleted.ok()) PrintDeleted(session, options.trainer());
  return deleted;
}

}  // namespace

void AddTrainerCommands(CLI::App& app, Session& session) {
  const Options options = std::make_shared<TrainerOptions>();
  const auto add = [&](const char* name, const char* description,
                       const char* example,
                       absl::Status (*action)(Session&,
                                              const TrainerOptions&)) {
    CLI::App* command = AddCommand(
        app, session, name, description, example,
        [&session, options, action] { return action(session, *options); });
    command->add_option("trainer", options->name, "the trainer")->required();
    return command;
  };
  AddCommand(app, session, "trainers", "Lists the trainers.",
             "recurve trainers", [&session] { return Trainers(session); });
  add("checkpoints", "Lists a trainer's named checkpoints.",
      "recurve checkpoints my-trainer", &Checkpoints);
  add("save-trainer", "Puts a trainer on disk as it is.",
      "recurve save-trainer my-trainer --checkpoint before", &Save)
      ->add_option("--checkpoint", options->checkpoint,
                   "name to keep it under, replacing what it names");
  CLI::App* load = add("load-trainer", "Takes a trainer to a checkpoint.",
                       "recurve load-trainer my-trainer before", &Load);
  load->add_option("checkpoint", options->checkpoint,
                   "one of its own, or trainers/ID/checkpoints/NAME")
      ->required();
  load->add_flag("--weights_only", options->weights_only,
                 "optimizer, step and streams start anew");
  add("publish", "Makes a trainer's weights a new version of its model.",
      "recurve publish my-trainer", &Publish)
      ->add_option("--request_id", options->request_id,
                   "the same id again returns the same version");
  add("delete-trainer", "Deletes a trainer with its checkpoints.",
      "recurve delete-trainer my-trainer", &Delete);
}

}  // namespace recurve::cli
