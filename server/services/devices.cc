#include <memory>

#include "proto/recurve/v1/devices.grpc.pb.h"
#include "server/call.h"
#include "server/services/services.h"

namespace recurve::server {
namespace {

class DevicesService final : public v1::Devices::CallbackService {
 public:
  explicit DevicesService(Engine& engine) : engine_(engine) {}

  grpc::ServerUnaryReactor* ListDevices(
      grpc::CallbackServerContext* context, const v1::ListDevicesRequest*,
      v1::ListDevicesResponse* response) override {
    for (int rank = 0; rank < engine_.devices.size(); ++rank) {
      const DeviceWorker& device = engine_.devices.device(rank);
      const DeviceStats stats = device.stats();
      v1::Device& wire = *response->add_devices();
      wire.set_name(device.name());
      wire.set_spec(device.spec().text);
      wire.set_threads(device.spec().threads);
      wire.set_memory_bytes(stats.memory_bytes);
      wire.set_rows(stats.rows);
      wire.set_busy_seconds(stats.busy_seconds);
      wire.set_queued_tasks(stats.queued_tasks);
      wire.set_busy_share(stats.load.busy_share);
      wire.set_serving_share(stats.load.serving_share);
      wire.set_rows_per_second(stats.load.rows_per_second);
    }
    return ReplyNow(context, absl::OkStatus());
  }

 private:
  Engine& engine_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewDevicesService(Engine& engine) {
  return std::make_unique<DevicesService>(engine);
}

}  // namespace recurve::server
