#include "server/metrics/device_families.h"

#include <utility>

#include "engine/schedule/memory_plan.h"

namespace recurve::server {
namespace {

using Devices = std::vector<DeviceSnapshot>;

template <typename Value>
void Add(Family family, const Devices& devices, const Value& value,
         Families& families) {
  for (const DeviceSnapshot& device : devices) {
    family.Add({{"device", device.name}}, static_cast<double>(value(device)));
  }
  families.push_back(family.Take());
}

void AddLoad(const Devices& devices, Families& families) {
  Add(
      Family::Counter("recurve_device_rows_total", "Rows done"), devices,
      [](const auto& device) { return device.stats.rows; }, families);
  Add(
      Family::Counter("recurve_device_busy_seconds_total",
                      "Time in which it worked"),
      devices, [](const auto& device) { return device.stats.busy_seconds; },
      families);
  Add(
      Family::Gauge("recurve_device_queued_tasks", "Tasks waiting for it"),
      devices, [](const auto& device) { return device.stats.queued_tasks; },
      families);
  Add(
      Family::Gauge("recurve_device_busy_ratio",
                    "Share of the last ten seconds in which it worked"),
      devices, [](const auto& device) { return device.stats.load.busy_share; },
      families);
  Add(
      Family::Gauge("recurve_device_serving_ratio",
                    "Share of that work that was serving"),
      devices,
      [](const auto& device) { return device.stats.load.serving_share; },
      families);
}

void AddMemory(const Devices& devices, Families& families) {
  Add(
      Family::Gauge("recurve_memory_budget_bytes",
                    "Memory that the device may use"),
      devices, [](const auto& device) { return device.ledger.budget_bytes; },
      families);
  Add(
      Family::Gauge("recurve_memory_training_budget_bytes",
                    "Of it, what training may have"),
      devices,
      [](const auto& device) {
        return device.ledger.budget_bytes - device.ledger.serving_floor_bytes;
      },
      families);
  Add(
      Family::Gauge("recurve_memory_reserved_bytes", "Memory reserved now"),
      devices, [](const auto& device) { return device.ledger.reserved_bytes; },
      families);
  Add(
      Family::Gauge("recurve_memory_used_bytes", "Memory allocated now"),
      devices, [](const auto& device) { return device.ledger.used_bytes; },
      families);
  Add(
      Family::Gauge("recurve_memory_waiting_requests",
                    "Requests in line for memory"),
      devices, [](const auto& device) { return device.ledger.waiting.size(); },
      families);
}

void AddPlans(const Devices& devices, Families& families) {
  Family family = Family::Gauge("recurve_memory_planned_bytes",
                                "Memory that owners hold, by what it is for");
  for (const DeviceSnapshot& device : devices) {
    MemoryPlan plan;
    for (const OwnerMemory& owner : device.ledger.owners) {
      plan = plan + owner.plan;
    }
    for (const MemoryTerm& term : Terms(plan)) {
      family.Add({{"device", device.name}, {"kind", term.kind}},
                 static_cast<double>(term.bytes));
    }
  }
  families.push_back(family.Take());
}

}  // namespace

void AddDevices(const Devices& devices, Families& families) {
  AddLoad(devices, families);
  AddMemory(devices, families);
  AddPlans(devices, families);
}

}  // namespace recurve::server
