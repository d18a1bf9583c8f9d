// What every subcommand shares: the connection and how to print.
#ifndef RECURVE_CLIENT_CLI_SESSION_H_
#define RECURVE_CLIENT_CLI_SESSION_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "client/cpp/client.h"
#include "google/protobuf/message.h"
#include "nlohmann/json.hpp"

namespace CLI {
class App;
}

namespace recurve::cli {

struct Session {
  // Global flags.
  std::string server = "127.0.0.1:50051";
  double timeout_seconds = 0;  // of each call; 0 = none
  bool json = false;
  // Files, empty where not given.
  bool tls = false;
  std::string tls_ca;
  std::string tls_certificate;
  std::string tls_key;
  std::string token_file;

  // What the chosen subcommand does, set by its parser.
  std::function<absl::Status()> run;

  // OK if the client can be had: the files above can be read.
  absl::Status Prepare();
  // Connects on first use. After Prepare.
  Client& client();

 private:
  Client::Options options_;
  std::unique_ptr<Client> client_;
};

// `lm`, `lm/versions/2` and the full names all name a model or a version; the
// same for other collections.
std::string ResourceName(absl::string_view collection, absl::string_view name);

// One JSON object on one line. Messages by protobuf's JSON mapping with the
// field names of the .proto files, defaults included; 64-bit numbers as
// numbers.
void PrintJson(const nlohmann::json& object);
// That a deletion is done.
void PrintDeleted(const Session& session, const std::string& name);
nlohmann::json ToJson(const google::protobuf::Message& message);

// A subcommand `name` of `app` that runs `action`; `example` ends its help
// text.
CLI::App* AddCommand(CLI::App& app, Session& session, const std::string& name,
                     const std::string& description, const std::string& example,
                     std::function<absl::Status()> action);

// Each adds its subcommands.
void AddModelCommands(CLI::App& app, Session& session);
void AddVersionCommands(CLI::App& app, Session& session);
void AddDataCommands(CLI::App& app, Session& session);
void AddInferenceCommands(CLI::App& app, Session& session);
void AddSessionCommands(CLI::App& app, Session& session);
void AddGenerateCommand(CLI::App& app, Session& session);
void AddTrainingCommands(CLI::App& app, Session& session);
void AddStepCommand(CLI::App& app, Session& session);
void AddTrainerCommands(CLI::App& app, Session& session);
void AddPlanCommand(CLI::App& app, Session& session);
void AddServerCommands(CLI::App& app, Session& session);

}  // namespace recurve::cli

#endif  // RECURVE_CLIENT_CLI_SESSION_H_
