#include "client/cli/devices_table.h"

#include <string>

#include "absl/time/time.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace recurve::cli {
namespace {

std::string Table(const std::string& textproto) {
  v1::ListDevicesResponse devices;
  EXPECT_TRUE(
      google::protobuf::TextFormat::ParseFromString(textproto, &devices));
  return DevicesTable(devices, absl::FromUnixSeconds(1000));
}

TEST(DevicesTableTest, IdleDevicesAreATableOfTheirOwn) {
  EXPECT_EQ(Table(R"(devices { name: "devices/0" spec: "cpu:1" })"),
            "DEVICE     SPEC   BUSY  SERVING  ROWS/S  QUEUED     USED  RESERVED"
            "     PEAK     BUDGET  FOR TRAINING\n"
            "devices/0  cpu:1    0%       0%       0       0  0 bytes   0 bytes"
            "  0 bytes  unlimited     unlimited\n");
}

TEST(DevicesTableTest, ShowsLoadOwnersAndWhoWaits) {
  EXPECT_EQ(Table(R"(
    devices {
      name: "devices/0" spec: "cpu:1:memory=2MiB" busy_share: 0.874
      serving_share: 0.12 rows_per_second: 12345.6 queued_tasks: 3
      memory_bytes: 1048576 reserved_bytes: 1572864
      reserved_high_water_bytes: 1572864 budget_bytes: 2097152
      training_budget_bytes: 1677721
      owners { owner: "models/lm/versions/3" planned_bytes: 1572864
               used_bytes: 1048576 used_high_water_bytes: 1048576
               planned { weights_bytes: 524288 activations_bytes: 1048576 } }
      waiting { owner: "jobs/x" bytes: 1024 reason: "needs 1.0 KiB"
                since { seconds: 997 } }
    }
    devices {
      name: "devices/1" spec: "cpu:2" budget_bytes: 1024
      training_budget_bytes: 1024
      owners { owner: "workspace" planned_bytes: 10
               planned { workspace_bytes: 10 } }
    })"),
            "DEVICE     SPEC               BUSY  SERVING  ROWS/S  QUEUED     "
            "USED  RESERVED     PEAK   BUDGET  FOR TRAINING\n"
            "devices/0  cpu:1:memory=2MiB   87%      12%   12346       3  "
            "1.0 MiB   1.5 MiB  1.5 MiB  2.0 MiB       1.6 MiB\n"
            "devices/1  cpu:2                0%       0%       0       0  "
            "0 bytes   0 bytes  0 bytes  1.0 KiB       1.0 KiB\n"
            "\n"
            "DEVICE     OWNER                  PLANNED  MEASURED     PEAK  "
            "PLANNED FOR\n"
            "devices/0  models/lm/versions/3   1.5 MiB   1.0 MiB  1.0 MiB  "
            "weights 512.0 KiB, activations 1.0 MiB\n"
            "devices/1  workspace             10 bytes   0 bytes  0 bytes  "
            "workspace 10 bytes\n"
            "\n"
            "DEVICE     WAITS       FOR  SINCE  BECAUSE IT\n"
            "devices/0  jobs/x  1.0 KiB    3 s  needs 1.0 KiB\n");
}

}  // namespace
}  // namespace recurve::cli
