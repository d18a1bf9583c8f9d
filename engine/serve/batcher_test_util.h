// A batcher on devices of its own, and requests whose answers are compared with
// lone passes.
#ifndef RECURVE_ENGINE_SERVE_BATCHER_TEST_UTIL_H_
#define RECURVE_ENGINE_SERVE_BATCHER_TEST_UTIL_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "engine/model/executor_test_util.h"
#include "engine/schedule/device_spec.h"
#include "engine/schedule/memory_plan.h"
#include "engine/serve/batcher.h"
#include "gtest/gtest.h"

namespace recurve {

// A version, and its outputs by lone passes over whole sequences.
class Reference {
 public:
  explicit Reference(const char* config, const std::string& name = "m")
      : executor_(config),
        version_(
            ModelVersion::InMemory(*Model::Create(executor_.model().config()),
                                   executor_.parameters(), name)) {}

  const ModelHandle& version() const { return version_; }
  const Model& model() const { return executor_.model(); }
  std::vector<float> Outputs(const SequenceBatch& batch) {
    ForwardArgs args;
    args.batch = &batch;
    return executor_.Output(args);
  }

 private:
  TestExecutor executor_;
  ModelHandle version_;
};

// Rows [begin, end) of a batch of one sequence.
inline SequenceBatch Rows(const Model& model, const SequenceBatch& batch,
                          int64_t begin, int64_t end) {
  SequenceBatch rows;
  rows.cu_seqlens = {0, end - begin};
  if (model.takes_tokens()) {
    rows.tokens.assign(batch.tokens.begin() + begin,
                       batch.tokens.begin() + end);
  } else {
    const int64_t size = model.feature_size();
    rows.features.assign(batch.features.begin() + begin * size,
                         batch.features.begin() + end * size);
  }
  return rows;
}

inline Batcher::Options Options(int64_t max_batch_rows,
                                int64_t max_chunk_rows = 1024) {
  Batcher::Options options;
  options.max_batch_rows = max_batch_rows;
  options.max_chunk_rows = max_chunk_rows;
  return options;
}

// Keeps a device busy until it is opened.
class Gate {
 public:
  explicit Gate(DeviceWorker& device) {
    device.Enqueue(TaskClass::kServing, [this](Backend&) {
      closed_.Notify();
      open_.WaitForNotification();
      passed_.Notify();
    });
    closed_.WaitForNotification();
  }
  ~Gate() { Open(); }
  void Open() {
    if (passed_.HasBeenNotified()) return;
    open_.Notify();
    passed_.WaitForNotification();
  }

 private:
  absl::Notification closed_, open_, passed_;
};

// A device with so many bytes beside its workspace.
inline std::string Room(int64_t bytes) {
  return absl::StrCat("cpu:1:memory=", WorkspacePlan(1).total() + bytes);
}

// Of a model that is ready for passes of so many rows.
inline int64_t BytesOf(const Model& model, int64_t rows) {
  return InferencePlan(model, {rows, rows}).total();
}

struct Fixture {
  explicit Fixture(const std::string& specs,
                   const Batcher::Options& options = Batcher::Options())
      : devices(*ParseDevices(specs)),
        runner(devices, {}),
        batcher(runner, options) {}

  DevicePool devices;
  BatchRunner runner;
  Batcher batcher;
};

// A request's answer.
struct Answer {
  absl::Status status;
  std::vector<float> outputs;  // [R, O]
  std::atomic<int> calls = 0;
  absl::Notification done;

  const absl::Status& Wait() {
    done.WaitForNotification();
    return status;
  }
};

// Fills in consume and done.
inline BatcherRequest Request(const ModelHandle& version, SequenceBatch batch,
                              Answer& answer) {
  BatcherRequest request;
  request.version = version;
  request.batch = std::move(batch);
  const int64_t columns = version->model->output_size();
  const int64_t rows = version->model->pools() ? request.batch.num_sequences()
                                               : request.batch.num_rows();
  answer.outputs.resize(rows * columns);
  request.consume = [&answer, columns](const ChunkRows& chunk) {
    std::copy(chunk.output.data,
              chunk.output.data + chunk.output.rows * columns,
              answer.outputs.begin() + chunk.first_output_row * columns);
    return absl::OkStatus();
  };
  request.done = [&answer](const absl::Status& status) {
    answer.status = status;
    EXPECT_EQ(++answer.calls, 1);
    answer.done.Notify();
  };
  return request;
}

inline CarriedState::Values Read(const CarriedState& state) {
  absl::StatusOr<CarriedState::Values> read;
  absl::Notification done;
  state.Read([&](auto values) {
    read = std::move(values);
    done.Notify();
  });
  done.WaitForNotification();
  EXPECT_TRUE(read.ok()) << read.status();
  return *std::move(read);
}

// Time that is given to a batcher.
class Clock {
 public:
  std::function<absl::Time()> now() {
    return [this] { return absl::FromUnixNanos(nanos_); };
  }
  absl::Time Now() { return absl::FromUnixNanos(nanos_); }
  void Pass(absl::Duration time) { nanos_ += absl::ToInt64Nanoseconds(time); }

 private:
  std::atomic<int64_t> nanos_ = int64_t{1} << 50;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_BATCHER_TEST_UTIL_H_
