// The server's devices as people read them: load, memory, who has it, who
// waits for it.
#ifndef RECURVE_CLIENT_CLI_DEVICES_TABLE_H_
#define RECURVE_CLIENT_CLI_DEVICES_TABLE_H_

#include <string>

#include "absl/time/time.h"
#include "proto/recurve/v1/devices.pb.h"

namespace recurve::cli {

// DEVICE     SPEC                 BUSY  SERVING  ROWS/S ...    USED  RESERVED
// devices/0  cpu:1:memory=2GiB     87%      12%   12345     1.1 GiB   1.2 GiB
//
// and under it a table of the owners of memory, what was planned for each
// beside what was measured, and one of the requests that wait; those that have
// no rows are left out.
std::string DevicesTable(const v1::ListDevicesResponse& devices,
                         absl::Time now);

}  // namespace recurve::cli

#endif  // RECURVE_CLIENT_CLI_DEVICES_TABLE_H_
