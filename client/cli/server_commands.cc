// devices, health.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/devices_table.h"
#include "client/cli/progress.h"
#include "client/cli/session.h"

namespace recurve::cli {
namespace {

// Home, and from there to the end of the screen.
constexpr char kClearScreen[] = "\x1b[H\x1b[J";

struct DevicesFlags {
  bool watch = false;
  double seconds = 2;
};

absl::Status PrintDevices(Session& session, bool clear) {
  const auto devices = session.client().ListDevices();
  if (!devices.ok()) return devices.status();
  if (session.json) {
    PrintJson(ToJson(*devices));
  } else {
    absl::PrintF("%s%s\n", clear ? kClearScreen : "",
                 DevicesTable(*devices, absl::Now()));
  }
  std::fflush(stdout);
  return absl::OkStatus();
}

absl::Status Devices(Session& session, const DevicesFlags& flags) {
  const bool in_place = flags.watch && TerminalColumns(stdout) > 0;
  for (;;) {
    const absl::Status status = PrintDevices(session, in_place);
    if (!status.ok() || !flags.watch) return status;
    absl::SleepFor(absl::Seconds(flags.seconds));
  }
}

void AddDevices(CLI::App& app, Session& session) {
  const auto flags = std::make_shared<DevicesFlags>();
  CLI::App* command = AddCommand(
      app, session, "devices",
      "Shows the server's devices: load over the last ten seconds, memory and "
      "who has it.",
      "recurve devices --watch 5",
      [&session, flags] { return Devices(session, *flags); });
  command
      ->add_option_function<std::vector<double>>(
          "--watch",
          [flags](const std::vector<double>& seconds) {
            flags->watch = true;
            if (!seconds.empty()) flags->seconds = seconds[0];
          },
          "Shows them again and again, every SECONDS (2), until interrupted")
      ->expected(0, 1)
      ->type_name("SECONDS")
      ->check(CLI::Range(0.1, 3600.0));
}

absl::Status Health(Session& session) {
  const absl::Status health = session.client().CheckHealth();
  if (!health.ok()) return health;
  if (session.json) {
    PrintJson({{"status", "SERVING"}});
  } else {
    absl::PrintF("SERVING\n");
  }
  return absl::OkStatus();
}

}  // namespace

void AddServerCommands(CLI::App& app, Session& session) {
  AddDevices(app, session);
  AddCommand(app, session, "health", "Succeeds if the server serves.",
             "recurve health", [&session] { return Health(session); });
}

}  // namespace recurve::cli
