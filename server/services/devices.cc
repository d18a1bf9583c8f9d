#include <memory>

#include "engine/schedule/device.h"
#include "engine/schedule/ledger.h"
#include "engine/schedule/memory_plan.h"
#include "proto/recurve/v1/devices.grpc.pb.h"
#include "server/call.h"
#include "server/convert.h"
#include "server/services/services.h"

namespace recurve::server {
namespace {

v1::MemoryUse ToWire(const MemoryPlan& plan) {
  v1::MemoryUse wire;
  wire.set_weights_bytes(plan.weights);
  wire.set_gradients_bytes(plan.gradients);
  wire.set_optimizer_bytes(plan.optimizer);
  wire.set_activations_bytes(plan.activations);
  wire.set_workspace_bytes(plan.workspace);
  wire.set_sessions_bytes(plan.sessions);
  return wire;
}

v1::MemoryOwner ToWire(const OwnerMemory& owner) {
  v1::MemoryOwner wire;
  wire.set_owner(owner.owner);
  *wire.mutable_planned() = ToWire(owner.plan);
  wire.set_planned_bytes(owner.plan.total());
  wire.set_used_bytes(owner.used_bytes);
  wire.set_used_high_water_bytes(owner.used_high_water);
  return wire;
}

v1::MemoryWaiter ToWire(const WaitingRequest& waiting) {
  v1::MemoryWaiter wire;
  wire.set_owner(waiting.owner);
  wire.set_bytes(waiting.plan.total());
  wire.set_reason(waiting.reason);
  *wire.mutable_since() = server::ToWire(waiting.since);
  return wire;
}

void Describe(const DeviceWorker& device, v1::Device& wire) {
  const DeviceStats stats = device.stats();
  wire.set_name(device.name());
  wire.set_spec(device.spec().text);
  wire.set_threads(device.spec().threads);
  wire.set_rows(stats.rows);
  wire.set_busy_seconds(stats.busy_seconds);
  wire.set_queued_tasks(stats.queued_tasks);
  wire.set_busy_share(stats.load.busy_share);
  wire.set_serving_share(stats.load.serving_share);
  wire.set_rows_per_second(stats.load.rows_per_second);
}

void Describe(const LedgerSnapshot& ledger, v1::Device& wire) {
  wire.set_memory_bytes(ledger.used_bytes);
  wire.set_budget_bytes(ledger.budget_bytes);
  wire.set_training_budget_bytes(ledger.budget_bytes -
                                 ledger.serving_floor_bytes);
  wire.set_reserved_bytes(ledger.reserved_bytes);
  wire.set_reserved_high_water_bytes(ledger.reserved_high_water);
  wire.set_used_high_water_bytes(ledger.used_high_water);
  for (const OwnerMemory& owner : ledger.owners) {
    *wire.add_owners() = ToWire(owner);
  }
  for (const WaitingRequest& waiting : ledger.waiting) {
    *wire.add_waiting() = ToWire(waiting);
  }
}

class DevicesService final : public v1::Devices::CallbackService {
 public:
  explicit DevicesService(Engine& engine) : engine_(engine) {}

  grpc::ServerUnaryReactor* ListDevices(
      grpc::CallbackServerContext* context, const v1::ListDevicesRequest*,
      v1::ListDevicesResponse* response) override {
    return ReplyNow(context, [&] {
      for (int rank = 0; rank < engine_.devices->size(); ++rank) {
        Describe(rank, *response->add_devices());
      }
      return absl::OkStatus();
    });
  }

 private:
  void Describe(int rank, v1::Device& wire) const {
    const DeviceWorker& device = engine_.devices->device(rank);
    server::Describe(device, wire);
    server::Describe(device.ledger().Snapshot(), wire);
    for (const WaitingRequest& waiting : engine_.batches.Waiting(rank)) {
      *wire.add_waiting() = ToWire(waiting);
    }
  }

  Engine& engine_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewDevicesService(Engine& engine) {
  return std::make_unique<DevicesService>(engine);
}

}  // namespace recurve::server
