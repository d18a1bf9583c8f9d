#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/services/service_test_util.h"

namespace recurve::server {
namespace {

class DevicesTest : public ServiceTest {
 protected:
  v1::Device Device() {
    v1::ListDevicesResponse list;
    ExpectOk(Call(*devices, &v1::Devices::Stub::ListDevices,
                  v1::ListDevicesRequest(), &list));
    EXPECT_EQ(list.devices_size(), 1);
    return list.devices(0);
  }
};

TEST_F(DevicesTest, SaysWhoHasTheMemory) {
  config.set_devices("cpu:1:memory=64MiB");
  config.set_serving_memory_share(0.25);
  Start();
  const v1::Device idle = Device();
  EXPECT_EQ(idle.name(), "devices/0");
  EXPECT_EQ(idle.spec(), "cpu:1:memory=64MiB");
  EXPECT_EQ(idle.budget_bytes(), 64 << 20);
  EXPECT_EQ(idle.training_budget_bytes(),
            (64 << 20) - ((64 << 20) - idle.reserved_bytes()) / 4);
  ASSERT_EQ(idle.owners_size(), 1);
  EXPECT_EQ(idle.owners(0).owner(), "workspace");
  EXPECT_EQ(idle.reserved_bytes(), idle.owners(0).planned_bytes());
  EXPECT_EQ(idle.rows_per_second(), 0);

  CreateModel("lm", TokenConfig());
  v1::PredictRequest request;
  request.set_model("models/lm");
  *request.mutable_batch() = Tokens({{1, 2, 3}});
  request.set_want_class(true);
  v1::PredictResponse response;
  ExpectOk(Call(*inference, &v1::Inference::Stub::Predict, request, &response));

  const v1::Device device = Device();
  ASSERT_EQ(device.owners_size(), 2);
  const v1::MemoryOwner& owner = device.owners(0);
  EXPECT_EQ(owner.owner(), "models/lm/versions/1");
  EXPECT_GT(owner.planned().weights_bytes(), 0);
  EXPECT_GT(owner.planned().activations_bytes(), 0);
  EXPECT_EQ(owner.planned().optimizer_bytes(), 0);
  EXPECT_EQ(owner.planned_bytes(), owner.planned().weights_bytes() +
                                       owner.planned().activations_bytes());
  EXPECT_GE(owner.used_bytes(), owner.planned().weights_bytes());
  EXPECT_LE(owner.used_bytes(), owner.planned_bytes());
  EXPECT_EQ(device.memory_bytes(), owner.used_bytes());
  EXPECT_EQ(device.reserved_bytes(),
            idle.reserved_bytes() + owner.planned_bytes());
  EXPECT_EQ(device.reserved_high_water_bytes(), device.reserved_bytes());
  EXPECT_EQ(device.rows(), 3);
  EXPECT_GT(device.rows_per_second(), 0);
  EXPECT_LE(device.serving_share(), device.busy_share());
  EXPECT_LE(device.busy_share(), 1);
  EXPECT_EQ(device.waiting_size(), 0);
}

}  // namespace
}  // namespace recurve::server
