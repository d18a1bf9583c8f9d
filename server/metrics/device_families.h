// Devices: how busy they are, and who has their memory.
#ifndef RECURVE_SERVER_METRICS_DEVICE_FAMILIES_H_
#define RECURVE_SERVER_METRICS_DEVICE_FAMILIES_H_

#include <string>
#include <vector>

#include "engine/schedule/device.h"
#include "engine/schedule/ledger.h"
#include "server/metrics/family.h"

namespace recurve::server {

struct DeviceSnapshot {
  std::string name;  // devices/0
  DeviceStats stats;
  LedgerSnapshot ledger;
};

// With the label device; memory by what it is for also with the label kind.
void AddDevices(const std::vector<DeviceSnapshot>& devices, Families& families);

}  // namespace recurve::server

#endif  // RECURVE_SERVER_METRICS_DEVICE_FAMILIES_H_
