// Devices: what --devices names, one worker thread for each, and the pool of
// all.
#ifndef RECURVE_ENGINE_SCHEDULE_DEVICE_H_
#define RECURVE_ENGINE_SCHEDULE_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/backend.h"

namespace recurve {

// `cpu:THREADS[:memory=SIZE]`; cuda devices are another build's.
struct DeviceSpec {
  std::string text;  // as configured
  int threads = 1;
  int64_t memory_bytes = 0;  // budget; 0 = not limited
};

// "cpu:1,cpu:2:memory=2GiB"; "" = one device with all cores. InvalidArgument
// names the entry and what is allowed.
absl::StatusOr<std::vector<DeviceSpec>> ParseDevices(absl::string_view flag);

struct DeviceStats {
  int64_t rows = 0;
  double busy_seconds = 0;
  int64_t queued_tasks = 0;
  int64_t memory_bytes = 0;
};

enum class TaskClass { kServing, kTraining };

// One device: a backend and the thread that owns it. Tasks of a class run in
// the order given; serving tasks go before training tasks. Thread-safe.
class DeviceWorker {
 public:
  using Task = std::function<void(Backend&)>;

  DeviceWorker(int index, const DeviceSpec& spec);
  ~DeviceWorker();  // finishes the queue first

  std::string name() const;  // devices/N
  const DeviceSpec& spec() const;
  void Enqueue(TaskClass task_class, Task task);
  // For a long training task, on the worker's thread, between micro-batches:
  // runs the serving tasks that wait.
  void ServeWaiting();
  void AddRows(int64_t rows);
  DeviceStats stats() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

class DevicePool {
 public:
  explicit DevicePool(const std::vector<DeviceSpec>& specs);

  int size() const;
  DeviceWorker& device(int rank);
  // The device with the shortest queue.
  DeviceWorker& LeastLoaded();
  // Enqueues task(rank, backend) as training work on every device, atomically:
  // all devices see gangs in one order, so gangs may use collectives. `done`
  // runs once, after the last of them.
  void EnqueueGang(std::function<void(int rank, Backend&)> task,
                   std::function<void()> done);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SCHEDULE_DEVICE_H_
