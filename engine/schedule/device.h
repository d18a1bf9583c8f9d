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

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/schedule/device_spec.h"
#include "engine/schedule/ledger.h"
#include "engine/schedule/load_window.h"
#include "engine/schedule/task_class.h"
#include "kernels/backend.h"

namespace recurve {

struct DeviceStats {
  int64_t rows = 0;
  double busy_seconds = 0;   // time that tasks ran, the running one included
  int64_t queued_tasks = 0;  // waiting, not running
  Load load;                 // over the last seconds
};

// Makes a device's backend, on that device's thread.
using BackendFactory =
    std::function<absl::StatusOr<std::unique_ptr<Backend>>(const DeviceSpec&)>;
absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(const DeviceSpec& spec);

// Time since any fixed moment; unlike the time of day it never goes back.
absl::Duration MonotonicTime();

struct DeviceOptions {
  // Of a device's time while serving and training both wait for it, in (0, 1]:
  // serving goes before training until it has had this much, 1 = always. More
  // is a shorter wait for predictions, less is faster training.
  double serving_share = 0.9;
  // Of a device's memory, what training leaves for serving (ServingFloor).
  double serving_memory_share = 0;
  // Called on many threads, at every change of tasks.
  std::function<absl::Duration()> now = MonotonicTime;
};

// One device: a backend and the thread that owns it. Tasks of a class run in
// the order given; ServingShare says which class is next. Thread-safe.
class DeviceWorker {
 public:
  using Task = std::function<void(Backend&)>;

  DeviceWorker(int index, const DeviceSpec& spec,
               BackendFactory factory = CreateBackend,
               const DeviceOptions& options = DeviceOptions());
  ~DeviceWorker();  // finishes the queue first

  // Waits for the backend. An error of the factory: then no task is ever done.
  absl::Status WaitForBackend() const;

  std::string name() const;  // devices/N
  const DeviceSpec& spec() const;
  // Who holds how much of the device's memory; its budget is the spec's.
  // Whatever a task allocates is reserved here before, and allocated through an
  // AccountBackend: what goes by it would be counted nowhere.
  Ledger& ledger();
  const Ledger& ledger() const;
  void Enqueue(TaskClass task_class, Task task);
  bool OnThread() const;  // whether the caller is in a task
  // For a long training task, on the worker's thread, between micro-batches:
  // runs serving tasks that wait until it is training's turn again.
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

  // REQUIRES: the factory makes all backends.
  explicit DevicePool(const std::vector<DeviceSpec>& specs,
                      BackendFactory factory = CreateBackend,
                      const DeviceOptions& options = DeviceOptions());
  // The same once all backends are there; the factory's error of the first
  // device that has none.
  static absl::StatusOr<std::unique_ptr<DevicePool>> Create(
      const std::vector<DeviceSpec>& specs,
      BackendFactory factory = CreateBackend,
      const DeviceOptions& options = DeviceOptions());
  ~DevicePool();  // finishes all queues first

  int size() const;
  DeviceWorker& device(int rank);
  // Those devices, the one with the fewest tasks, waiting or running, first.
  std::vector<int> ByLoad(std::vector<int> ranks) const;
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
