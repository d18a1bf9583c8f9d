// sessions, create-session, snapshot, fork-session, move-session,
// delete-session.
#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/files.h"
#include "client/cli/session.h"

namespace recurve::cli {
namespace {

struct SessionOptions {
  std::string name;
  std::string model;
  std::string new_id;
  std::string file;

  std::string session() const { return ResourceName("sessions", name); }
};

void PrintSession(const v1::Session& session) {
  absl::PrintF(
      "%s  %s  at %d  %d bytes %s\n", session.name(), session.model_version(),
      session.position(), session.state_bytes(),
      session.device().empty() ? "in host memory" : "on " + session.device());
}

absl::Status Show(const Session& session,
                  const absl::StatusOr<v1::Session>& live) {
  if (!live.ok()) return live.status();
  if (session.json) {
    PrintJson(ToJson(*live));
  } else {
    PrintSession(*live);
  }
  return absl::OkStatus();
}

absl::Status List(Session& session, const SessionOptions& options) {
  const std::string model =
      options.model.empty() ? "" : ResourceName("models", options.model);
  const auto list = session.client().ListSessions(model);
  if (!list.ok()) return list.status();
  if (session.json) {
    nlohmann::json objects = nlohmann::json::array();
    for (const v1::Session& live : *list) objects.push_back(ToJson(live));
    PrintJson({{"sessions", objects}});
    return absl::OkStatus();
  }
  for (const v1::Session& live : *list) PrintSession(live);
  if (list->empty()) absl::PrintF("no sessions\n");
  return absl::OkStatus();
}

absl::Status Create(Session& session, const SessionOptions& options) {
  v1::CreateSessionRequest request;
  request.set_session_id(options.name);
  request.set_model(ResourceName("models", options.model));
  if (!options.file.empty()) {
    auto snapshot = ReadFile(UserPath(options.file));
    if (!snapshot.ok()) return snapshot.status();
    request.set_snapshot(*std::move(snapshot));
  }
  return Show(session, session.client().CreateSession(request));
}

absl::Status Write(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write ", path));
}

absl::Status Snapshot(Session& session, const SessionOptions& options) {
  const auto snapshot = session.client().SnapshotSession(options.session());
  if (!snapshot.ok()) return snapshot.status();
  const std::string path = UserPath(options.file);
  if (auto status = Write(path, snapshot->data()); !status.ok()) return status;
  if (session.json) {
    PrintJson({{"file", path},
               {"position", snapshot->position()},
               {"model_version", snapshot->model_version()}});
  } else {
    absl::PrintF("%s  %s  at %d\n", path, snapshot->model_version(),
                 snapshot->position());
  }
  return absl::OkStatus();
}

absl::Status Fork(Session& session, const SessionOptions& options) {
  v1::ForkSessionRequest request;
  request.set_name(options.session());
  request.set_session_id(options.new_id);
  return Show(session, session.client().ForkSession(request));
}

absl::Status Move(Session& session, const SessionOptions& options) {
  v1::MoveSessionRequest request;
  request.set_name(options.session());
  request.set_model_version(ResourceName("models", options.model));
  return Show(session, session.client().MoveSession(request));
}

absl::Status Delete(Session& session, const SessionOptions& options) {
  const absl::Status deleted =
      session.client().DeleteSession(options.session());
  if (deleted.ok()) PrintDeleted(session, options.session());
  return deleted;
}

}  // namespace

void AddSessionCommands(CLI::App& app, Session& session) {
  const auto options = std::make_shared<SessionOptions>();
  const auto add =
      [&](const char* name, const char* description, const char* example,
          absl::Status (*action)(Session&, const SessionOptions&)) {
        return AddCommand(
            app, session, name, description, example,
            [&session, options, action] { return action(session, *options); });
      };
  const auto add_of_one = [&](auto... arguments) {
    CLI::App* command = add(arguments...);
    command->add_option("session", options->name, "the session")->required();
    return command;
  };
  add("sessions", "Lists the live sessions.", "recurve sessions lm", &List)
      ->add_option("model", options->model, "on this model or version alone");
  CLI::App* create = add_of_one(
      "create-session", "Begins a live session.",
      "recurve create-session mine lm --snapshot mine.session", &Create);
  create->add_option("model", options->model, "model or model/versions/N")
      ->required();
  create->add_option("--snapshot", options->file,
                     "go on from this file of `snapshot`; default: zeros");
  add_of_one("snapshot", "Writes a session's state to a file.",
             "recurve snapshot mine --out mine.session", &Snapshot)
      ->add_option("--out", options->file, "the file")
      ->required();
  add_of_one("fork-session", "A second session in the same state.",
             "recurve fork-session mine other", &Fork)
      ->add_option("new", options->new_id, "its name; the server's by default");
  add_of_one("move-session",
             "Goes on with another version whose state has the same shape.",
             "recurve move-session mine lm/versions/2", &Move)
      ->add_option("model", options->model,
                   "model/versions/N, or a model for its newest")
      ->required();
  add_of_one("delete-session", "Ends a session.", "recurve delete-session mine",
             &Delete);
}

}  // namespace recurve::cli
