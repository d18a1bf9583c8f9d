#include "engine/schedule/device.h"

#include <omp.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/communicator.h"
#include "kernels/forwarding_backend.h"

namespace recurve {
namespace {

using ::testing::ElementsAre;

// Of which nothing is called.
absl::StatusOr<std::unique_ptr<Backend>> Idle(const DeviceSpec&) {
  return std::make_unique<ForwardingBackend>(nullptr);
}

DeviceSpec Threads(int threads) {
  DeviceSpec spec;
  spec.text = "cpu:" + std::to_string(threads);
  spec.threads = threads;
  return spec;
}

std::vector<DeviceSpec> Devices(int count) {
  return std::vector<DeviceSpec>(count, Threads(1));
}

// What tasks did, in order.
class Log {
 public:
  void Add(std::string entry) {
    absl::MutexLock lock(&mutex_);
    entries_.push_back(std::move(entry));
  }
  std::vector<std::string> entries() const {
    absl::MutexLock lock(&mutex_);
    return entries_;
  }

 private:
  mutable absl::Mutex mutex_;
  std::vector<std::string> entries_ ABSL_GUARDED_BY(mutex_);
};

TEST(DevicePoolTest, ADeviceThatCannotStartIsAnErrorWithItsName) {
  std::vector<DeviceSpec> specs = Devices(3);
  specs[1].text = "cuda:7";
  const auto pool = DevicePool::Create(
      specs,
      [](const DeviceSpec& spec) -> absl::StatusOr<std::unique_ptr<Backend>> {
        if (spec.text == "cuda:7") return absl::UnavailableError("not there");
        return Idle(spec);
      });
  EXPECT_EQ(pool.status(),
            absl::UnavailableError("device \"cuda:7\": not there"));
  EXPECT_TRUE(DevicePool::Create(Devices(3), Idle).ok());
}

TEST(CreateBackend, KnowsWhetherTheBuildHasCuda) {
  const auto backend = CreateBackend(ParseDevices("cuda:63")->front());
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kUnavailable);
}

// A time of day that tasks move on.
class FakeTime {
 public:
  DeviceOptions Options(double serving_share = 0.9) {
    return {.serving_share = serving_share,
            .now = [this] { return absl::Milliseconds(milliseconds_.load()); }};
  }
  void Pass(int64_t milliseconds) { milliseconds_ += milliseconds; }

 private:
  std::atomic<int64_t> milliseconds_ = 1000;
};

DeviceWorker::Task Writes(Log& log, std::string entry) {
  return [&log, entry](Backend&) { log.Add(entry); };
}
// Takes this long.
DeviceWorker::Task Writes(Log& log, std::string entry, FakeTime& time,
                          int64_t milliseconds) {
  return [&log, &time, entry, milliseconds](Backend&) {
    log.Add(entry);
    time.Pass(milliseconds);
  };
}

TEST(DeviceWorker, ServesBeforeItTrains) {
  Log log;
  FakeTime time;
  {
    DeviceWorker worker(0, Threads(1), Idle, time.Options());
    absl::Notification go;
    worker.Enqueue(TaskClass::kTraining,
                   [&](Backend&) { go.WaitForNotification(); });
    worker.Enqueue(TaskClass::kTraining, Writes(log, "train 1"));
    worker.Enqueue(TaskClass::kServing, Writes(log, "serve 1"));
    worker.Enqueue(TaskClass::kTraining, Writes(log, "train 2"));
    worker.Enqueue(TaskClass::kServing, Writes(log, "serve 2"));
    go.Notify();
  }
  EXPECT_THAT(log.entries(),
              ElementsAre("serve 1", "serve 2", "train 1", "train 2"));
}

TEST(DeviceWorker, TrainingHasItsShare) {
  Log log;
  FakeTime time;
  {
    DeviceWorker worker(0, Threads(1), Idle, time.Options(0.75));
    absl::Notification go;
    worker.Enqueue(TaskClass::kServing,
                   [&](Backend&) { go.WaitForNotification(); });
    for (int i = 0; i < 8; ++i) {
      worker.Enqueue(TaskClass::kServing, Writes(log, "s", time, 10));
      worker.Enqueue(TaskClass::kTraining, Writes(log, "T", time, 10));
    }
    go.Notify();
  }
  // Three of serving to one of training until nothing is to be served.
  EXPECT_THAT(log.entries(),
              ElementsAre("s", "T", "s", "s", "s", "T", "s", "s", "s", "T", "s",
                          "T", "T", "T", "T", "T"));
}

TEST(DeviceWorker, AShareOfOneIsServingFirstAlways) {
  Log log;
  FakeTime time;
  {
    DeviceWorker worker(0, Threads(1), Idle, time.Options(1));
    absl::Notification go;
    worker.Enqueue(TaskClass::kServing,
                   [&](Backend&) { go.WaitForNotification(); });
    worker.Enqueue(TaskClass::kTraining, Writes(log, "T", time, 10));
    for (int i = 0; i < 3; ++i) {
      worker.Enqueue(TaskClass::kServing, Writes(log, "s", time, 10));
    }
    go.Notify();
  }
  EXPECT_THAT(log.entries(), ElementsAre("s", "s", "s", "T"));
}

TEST(DeviceWorker, ServesBetweenMicroBatchesWithinItsShare) {
  Log log;
  FakeTime time;
  {
    DeviceWorker worker(0, Threads(1), Idle, time.Options(0.5));
    absl::Notification started, queued;
    worker.Enqueue(TaskClass::kTraining, [&](Backend&) {
      started.Notify();
      queued.WaitForNotification();
      for (const char* micro_batch : {"T1", "T2", "T3"}) {
        log.Add(micro_batch);
        time.Pass(10);
        worker.ServeWaiting();
      }
    });
    started.WaitForNotification();
    worker.Enqueue(TaskClass::kTraining, Writes(log, "U"));
    for (int i = 0; i < 6; ++i) {
      worker.Enqueue(TaskClass::kServing, Writes(log, "s", time, 4));
    }
    queued.Notify();
  }
  // 10 ms of training, then serving until it has had more: 12, 20, 32.
  EXPECT_THAT(log.entries(),
              ElementsAre("T1", "s", "s", "s", "T2", "s", "s", "s", "T3", "U"));
}

TEST(DeviceWorker, ServesWhatComesMeanwhile) {
  Log log;
  FakeTime time;
  {
    DeviceWorker worker(0, Threads(1), Idle, time.Options());
    absl::Notification started, queued;
    worker.Enqueue(TaskClass::kTraining, [&](Backend&) {
      started.Notify();
      queued.WaitForNotification();
      worker.ServeWaiting();
      log.Add("train");
    });
    started.WaitForNotification();
    worker.Enqueue(TaskClass::kServing, [&](Backend&) {
      log.Add("serve 1");
      worker.Enqueue(TaskClass::kServing, Writes(log, "serve 2"));
    });
    queued.Notify();
  }
  EXPECT_THAT(log.entries(), ElementsAre("serve 1", "serve 2", "train"));
}

TEST(DeviceWorker, SetsItsOwnTeamSize) {
  std::vector<int> sizes;
  {
    DeviceWorker two(0, Threads(2), Idle);
    DeviceWorker three(1, Threads(3), Idle);
    absl::Notification first;
    two.Enqueue(TaskClass::kServing, [&](Backend&) {
      int size = 0;
#pragma omp parallel
#pragma omp single
      size = omp_get_num_threads();
      sizes.push_back(size);
      sizes.push_back(omp_get_max_threads());
      first.Notify();
    });
    three.Enqueue(TaskClass::kServing, [&](Backend&) {
      first.WaitForNotification();
      sizes.push_back(omp_get_max_threads());
    });
  }
  EXPECT_THAT(sizes, ElementsAre(2, 2, 3));
}

TEST(DeviceWorker, CountsRowsTimeAndQueue) {
  FakeTime time;
  DeviceWorker worker(3, Threads(1), Idle, time.Options());
  EXPECT_EQ(worker.name(), "devices/3");
  absl::Notification started, go;
  worker.Enqueue(TaskClass::kTraining, [&](Backend&) {
    worker.AddRows(5);
    worker.AddRows(6);
    time.Pass(500);
    started.Notify();
    go.WaitForNotification();
  });
  worker.Enqueue(TaskClass::kTraining, [](Backend&) {});
  started.WaitForNotification();
  const DeviceStats stats = worker.stats();
  EXPECT_EQ(stats.rows, 11);
  EXPECT_EQ(stats.queued_tasks, 1);
  EXPECT_EQ(stats.busy_seconds, 0.5);
  EXPECT_EQ(stats.load.busy_share, 1);
  EXPECT_EQ(stats.load.serving_share, 0);
  EXPECT_EQ(stats.load.rows_per_second, 22);
  go.Notify();
  absl::Notification done;
  worker.Enqueue(TaskClass::kTraining, [&](Backend&) { done.Notify(); });
  done.WaitForNotification();
  EXPECT_EQ(worker.stats().queued_tasks, 0);
}

TEST(DeviceWorker, TellsServingFromTraining) {
  FakeTime time;
  DeviceStats stats;
  {
    DeviceWorker worker(0, Threads(1), Idle, time.Options(1));
    absl::Notification started, queued;
    worker.Enqueue(TaskClass::kTraining, [&](Backend&) {
      started.Notify();
      queued.WaitForNotification();
      time.Pass(300);
      worker.ServeWaiting();
      time.Pass(400);
    });
    started.WaitForNotification();
    worker.Enqueue(TaskClass::kServing, [&](Backend&) { time.Pass(200); });
    worker.Enqueue(TaskClass::kServing, [&](Backend&) { time.Pass(50); });
    absl::Notification done;
    worker.Enqueue(TaskClass::kTraining, [&](Backend&) { done.Notify(); });
    queued.Notify();
    done.WaitForNotification();
    time.Pass(50);
    stats = worker.stats();
  }
  EXPECT_DOUBLE_EQ(stats.load.serving_share, 0.25);
  EXPECT_GE(stats.busy_seconds, 0.95);
  EXPECT_LE(stats.busy_seconds, 1);
}

TEST(DevicePool, OrdersDevicesByLoad) {
  absl::Notification go;
  DevicePool pool(Devices(3), Idle);
  const auto wait = [&](Backend&) { go.WaitForNotification(); };
  pool.device(0).Enqueue(TaskClass::kTraining, wait);
  pool.device(0).Enqueue(TaskClass::kTraining, wait);
  pool.device(1).Enqueue(TaskClass::kTraining, wait);
  EXPECT_THAT(pool.ByLoad({0, 1, 2}), ElementsAre(2, 1, 0));
  EXPECT_THAT(pool.ByLoad({0, 1}), ElementsAre(1, 0));
  pool.device(2).Enqueue(TaskClass::kTraining, wait);
  pool.device(2).Enqueue(TaskClass::kTraining, wait);
  EXPECT_THAT(pool.ByLoad({0, 1, 2}), ElementsAre(1, 0, 2));
  go.Notify();
}

TEST(DevicePool, GangRunsOnEveryDeviceAndIsDoneOnce) {
  DevicePool pool(Devices(4), Idle);
  std::vector<int> ran(4, 0);
  std::atomic<int> done_count = 0;
  absl::Notification done;
  pool.EnqueueGang([&](int rank, Backend&) { ++ran[rank]; },
                   [&] {
                     ++done_count;
                     done.Notify();
                   });
  done.WaitForNotification();
  EXPECT_THAT(ran, ElementsAre(1, 1, 1, 1));
  EXPECT_EQ(done_count, 1);
}

TEST(DevicePool, GangsFromManyThreadsComeInOneOrder) {
  constexpr int kThreads = 4, kGangs = 50, kDevices = 3;
  std::vector<std::vector<int>> orders(kDevices);
  {
    DevicePool pool(Devices(kDevices), Idle);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kGangs; ++i) {
          pool.EnqueueGang(
              [&orders, id = t * kGangs + i](int rank, Backend&) {
                orders[rank].push_back(id);
              },
              [] {});
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(orders[0].size(), static_cast<size_t>(kThreads * kGangs));
  EXPECT_EQ(orders[1], orders[0]);
  EXPECT_EQ(orders[2], orders[0]);
}

TEST(DevicePool, ConcurrentCollectivesAndServingDoNotDeadlock) {
  constexpr int kDevices = 3, kRounds = 100;
  std::atomic<int> collectives = 0, served = 0;
  {
    DevicePool pool(Devices(kDevices), Idle);
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        auto communicators = CreateLocalCommunicators(kDevices);
        for (int i = 0; i < kRounds; ++i) {
          absl::Notification done;
          pool.EnqueueCollective(
              [&](int rank, Backend&) {
                if (communicators[rank]->Barrier().ok()) ++collectives;
              },
              [&] { done.Notify(); });
          done.WaitForNotification();
        }
      });
    }
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) {
        pool.device(pool.ByLoad({0, 1, 2})[0])
            .Enqueue(TaskClass::kServing, [&](Backend&) { ++served; });
      }
    });
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(collectives, 2 * kRounds * kDevices);
  EXPECT_EQ(served, kRounds);
}

TEST(DevicePool, DeviceServesWhileItWaitsForTheOthers) {
  DevicePool pool(Devices(2), Idle);
  absl::Notification release, served, done;
  pool.device(1).Enqueue(TaskClass::kTraining,
                         [&](Backend&) { release.WaitForNotification(); });
  std::atomic<int> ran = 0;
  pool.EnqueueCollective([&](int, Backend&) { ++ran; }, [&] { done.Notify(); });
  pool.device(0).Enqueue(TaskClass::kServing,
                         [&](Backend&) { served.Notify(); });
  served.WaitForNotification();
  EXPECT_EQ(ran, 0);
  release.Notify();
  done.WaitForNotification();
  EXPECT_EQ(ran, 2);
}

TEST(DevicePool, DestructionFinishesGangs) {
  std::atomic<int> ran = 0;
  for (int round = 0; round < 100; ++round) {
    DevicePool pool(Devices(3), Idle);
    pool.EnqueueCollective([&](int, Backend&) { ++ran; }, [] {});
  }
  EXPECT_EQ(ran, 300);
}

}  // namespace
}  // namespace recurve
