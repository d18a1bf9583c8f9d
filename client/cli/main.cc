// recurve: the command line of a Recurve server.
//
// Exit status: 0 done, 1 the call or the job failed, 2 wrong usage.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "client/cli/session.h"

namespace recurve::cli {
namespace {

int Fail(const absl::Status& status) {
  absl::FPrintF(stderr, "recurve: %s: %s\n",
                absl::StatusCodeToString(status.code()), status.message());
  return 1;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Trains and serves SRU and QRNN models on a Recurve server.\n"
      "`recurve SUBCOMMAND --help` shows a subcommand's options and an "
      "example.",
      "recurve");
  Session session;
  app.fallthrough();  // global flags also work after the subcommand
  app.require_subcommand(1);
  app.add_option("--server", session.server, "HOST:PORT of the server")
      ->capture_default_str();
  app.add_option("--timeout", session.timeout_seconds,
                 "seconds a call may take; 0 = any");
  app.add_flag("--json", session.json, "print one JSON object");

  AddModelCommands(app, session);
  AddDataCommands(app, session);
  AddInferenceCommands(app, session);
  AddGenerateCommand(app, session);
  AddTrainingCommands(app, session);
  AddStepCommand(app, session);
  AddServerCommands(app, session);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const absl::Status status = session.run();
  return status.ok() ? 0 : Fail(status);
}

}  // namespace
}  // namespace recurve::cli

int main(int argc, char** argv) { return recurve::cli::Main(argc, argv); }
