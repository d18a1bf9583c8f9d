// Devices: one worker thread for each that --devices names, and the pool of
// all.
#ifndef RECURVE_ENGINE_SCHEDULE_DEVICE_H_
#define RECURVE_ENGINE_SCHEDULE_DEVICE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/schedule/device_spec.h"
#include "kernels/backend.h"

namespace recurve {

struct DeviceStats {
  int64_t rows = 0;
  double busy_seconds = 0;   // time that tasks ran, the running one included
  int64_t queued_tasks = 0;  // waiting, not running
  int64_t memory_bytes = 0;  // allocated now through the backend
};

enum class TaskClass { kServing, kTraining };

// Makes a device's backend, on that device's thread.
using BackendFactory =
    std::function<std::unique_ptr<Backend>(const DeviceSpec&)>;
std::unique_ptr<Backend> CreateBackend(const DeviceSpec& spec);

// One device: a backend and the thread that owns it. Tasks of a class run in
// the order given. Serving tasks that wait go before a training task, those
// that come when its turn has come do not: neither class keeps the other out.
// Thread-safe.
class DeviceWorker {
 public:
  using Task = std::function<void(Backend&)>;

  DeviceWorker(int index, const DeviceSpec& spec,
               BackendFactory factory = CreateBackend);
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
  friend class DevicePool;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

class DevicePool {
 public:
  using GangTask = std::function<void(int rank, Backend&)>;

  explicit DevicePool(const std::vector<DeviceSpec>& specs,
                      BackendFactory factory = CreateBackend);
  ~DevicePool();  // finishes all queues first

  int size() const;
  DeviceWorker& device(int rank);
  // A device with the fewest tasks, waiting or running.
  DeviceWorker& LeastLoaded();
  // Enqueues task(rank, backend) as training work on every device, atomically:
  // all devices see gangs in one order. `done` runs once, after the last of
  // them, on that device's thread.
  void EnqueueGang(GangTask task, std::function<void()> done);
  // The same for tasks that wait for each other, as in collectives: none begins
  // before every device has come to its own, and a device that comes early
  // serves meanwhile.
  void EnqueueCollective(GangTask task, std::function<void()> done);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SCHEDULE_DEVICE_H_
