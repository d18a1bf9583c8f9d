// recurve: the command line of a Recurve server.
//
// Exit status: 0 done, 1 the call or the job failed, 2 wrong usage.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "absl/strings/str_format.h"
#include "client/cli/session.h"

namespace recurve::cli {
namespace {

int Fail(const absl::Status& status) {
  absl::FPrintF(stderr, "recurve: %s: %s\n",
                absl::StatusCodeToString(status.code()), status.message());
  return 1;
}

void PrintWhichServer(const Session& session) {
  absl::FPrintF(stderr,
                "recurve: the server asked was %s; --server or RECURVE_SERVER "
                "names another\n",
                session.server);
}

// 0 after --help; 2, with what is wrong on stderr, otherwise.
int EndParsing(const CLI::App& app, const CLI::ParseError& error) {
  const auto unknown = app.remaining();
  if (error.get_exit_code() != 0 && app.get_subcommands().empty() &&
      !unknown.empty()) {  // CLI11 would say that a subcommand is required
    absl::FPrintF(stderr, "recurve: no subcommand %s; see `recurve --help`\n",
                  unknown.front());
    return 2;
  }
  return app.exit(error) == 0 ? 0 : 2;
}

void AddTlsFlags(CLI::App& app, Session& session) {
  app.add_flag("--tls", session.tls,
               "use TLS, trusting this machine's authorities");
  app.add_option("--tls_ca", session.tls_ca,
                 "PEM file of the authorities to trust; uses TLS")
      ->envname("RECURVE_TLS_CA");
  CLI::Option* const certificate =
      app.add_option("--tls_cert", session.tls_certificate,
                     "PEM file of the certificate to show the server")
          ->envname("RECURVE_TLS_CERT");
  CLI::Option* const key =
      app.add_option("--tls_key", session.tls_key,
                     "PEM file of that certificate's private key")
          ->envname("RECURVE_TLS_KEY");
  certificate->needs(key);
  key->needs(certificate);
  app.add_option("--token_file", session.token_file,
                 "file with the token to send; default: RECURVE_TOKEN itself");
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
      ->envname("RECURVE_SERVER")
      ->capture_default_str();
  app.add_option("--timeout", session.timeout_seconds,
                 "seconds a call may take; 0 = any");
  AddTlsFlags(app, session);
  app.add_flag("--json", session.json, "print one JSON object");

  AddModelCommands(app, session);
  AddVersionCommands(app, session);
  AddDataCommands(app, session);
  AddInferenceCommands(app, session);
  AddSessionCommands(app, session);
  AddGenerateCommand(app, session);
  AddTrainingCommands(app, session);
  AddStepCommand(app, session);
  AddTrainerCommands(app, session);
  AddPlanCommand(app, session);
  AddServerCommands(app, session);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return EndParsing(app, error);
  }
  absl::Status status = session.Prepare();
  if (status.ok()) status = session.run();
  if (status.ok()) return 0;
  const int exit_status = Fail(status);
  const bool asked_a_server = !app.got_subcommand("plan");
  if (absl::IsUnavailable(status) && asked_a_server) PrintWhichServer(session);
  return exit_status;
}

}  // namespace
}  // namespace recurve::cli

int main(int argc, char** argv) {
  const int status = recurve::cli::Main(argc, argv);
  std::cout.flush();
  std::fflush(nullptr);
  // Not by way of exit(): a thread of gRPC's may be in the middle of another
  // try to connect, and OpenSSL would take its data away.
  std::_Exit(status);
}
