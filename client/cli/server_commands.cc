// devices, health.
#include <CLI/CLI.hpp>

#include "absl/strings/str_format.h"
#include "client/cli/session.h"

namespace recurve::cli {
namespace {

absl::Status Devices(Session& session) {
  const auto devices = session.client().ListDevices();
  if (!devices.ok()) return devices.status();
  if (session.json) {
    PrintJson(ToJson(*devices));
    return absl::OkStatus();
  }
  for (const v1::Device& device : devices->devices()) {
    absl::PrintF(
        "%s  %s  %d threads, %d rows, busy %.1f s, %.1f MiB, %d queued\n",
        device.name(), device.spec(), device.threads(), device.rows(),
        device.busy_seconds(), device.memory_bytes() / 1048576.0,
        device.queued_tasks());
  }
  return absl::OkStatus();
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
  AddCommand(app, session, "devices", "Shows the server's devices.",
             "recurve devices", [&session] { return Devices(session); });
  AddCommand(app, session, "health", "Succeeds if the server serves.",
             "recurve health", [&session] { return Health(session); });
}

}  // namespace recurve::cli
