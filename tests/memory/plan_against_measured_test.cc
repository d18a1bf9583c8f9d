// Over a grid of models, modes and shapes:
//
//   plan       what engine/schedule/memory_plan.h says
//   allocated  what went through Backend::Allocate: equal to the byte
//   touched    bytes that were written at least once: all but the padding
//              between views, less than 1%
//
// Prints the table. A reservation of exactly the plan is behind each run, so
// the ledger's own check holds as well.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/model/executor.h"
#include "engine/model/executor_test_util.h"
#include "engine/model/initialize.h"
#include "engine/model/test_models.h"
#include "engine/schedule/account_backend.h"
#include "engine/schedule/device.h"
#include "engine/schedule/gradient_tree.h"
#include "engine/schedule/memory_plan.h"
#include "engine/schedule/partition.h"
#include "engine/train/trainer_test_util.h"
#include "gtest/gtest.h"
#include "kernels/cpu/backend.h"
#include "kernels/precision.h"
#include "tests/memory/sentinel_backend.h"

namespace recurve {
namespace {

constexpr uint8_t kSentinels[] = {0xA5, 0x5B};

struct NamedModel {
  const char* name;
  std::string text;
};

// Every kind of layer, option and end that has memory of its own.
std::vector<NamedModel> Models() {
  const std::string tokens =
      "input { token_embedding { vocabulary_size: 50 embedding_size: 40 } ";
  const std::string dropped = tokens + "dropout: 0.3 } ";
  const std::string features = "input { features { size: 48 } } ";
  const std::string classes = " loss { kind: CROSS_ENTROPY } ";
  const std::string numbers = " loss { kind: MEAN_SQUARED_ERROR } ";
  const auto linear = [](int size) {
    return absl::StrCat(" output { linear { size: ", size, " } }");
  };
  return {
      {"language model, 2 SRU layers",
       tokens + "} blocks { sru { hidden_size: 64 } }" + linear(50) + classes},
      {"the same with dropout",
       dropped +
           "blocks { sru { hidden_size: 64 dropout: 0.5 rnn_dropout: "
           "0.5 } } output { dropout: 0.4 linear { size: 50 } }" +
           classes},
      {"large vocabulary", tokens + "} blocks { sru { hidden_size: 40 } }" +
                               linear(1100) + classes},
      {"tied embedding",
       tokens +
           "} blocks { sru { hidden_size: 40 num_layers: 3 } } output { "
           "linear { size: 50 tied: true } }" +
           classes},
      {"features, 1 SRU layer, no linear output",
       features + "blocks { sru { hidden_size: 32 num_layers: 1 } }" + numbers},
      {"features, wide linear output",
       features + "blocks { sru { hidden_size: 20 } }" + linear(300) + numbers},
      {"pre-norm, low rank, both directions",
       dropped +
           "blocks { sru { hidden_size: 36 bidirectional: true "
           "layer_norm: true projection_size: 10 } }" +
           linear(50) + classes},
      {"post-norm, mapped input, max pooling",
       features +
           "blocks { sru { hidden_size: 36 num_layers: 3 layer_norm: "
           "true normalize_after: true proj_input_to_hidden_first: "
           "true dropout: 0.2 } } output { pooling: POOLING_MAX linear "
           "{ size: 7 } }" +
           classes},
      {"custom transform, mean pooling",
       features +
           "blocks { sru { hidden_size: 36 custom_m: "
           "CUSTOM_TRANSFORM_UV } } output { pooling: POOLING_MEAN "
           "dropout: 0.5 linear { size: 5 } }" +
           numbers},
      {"QRNN, window 1",
       features +
           "blocks { qrnn { hidden_size: 52 num_layers: 2 zoneout: 0.1 "
           "dropout: 0.2 } }" +
           linear(5) + classes},
      {"QRNN, window 2",
       tokens +
           "} blocks { qrnn { hidden_size: 52 num_layers: 2 window: 2 } "
           "}" +
           linear(50) + classes},
      {"features, QRNN, window 2, both directions",
       features +
           "blocks { qrnn { hidden_size: 28 window: 2 num_layers: 1 "
           "bidirectional: true output_gate: false } }" +
           linear(6) + classes},
      {"SRU under QRNN, last pooling",
       dropped +
           "blocks { name: 'a' sru { hidden_size: 33 num_layers: 1 } } "
           "blocks { name: 'b' qrnn { hidden_size: 45 window: 2 } } "
           "output { pooling: POOLING_LAST linear { size: 9 } }" +
           classes},
  };
}

std::vector<int64_t> EqualLengths(BatchShape shape) {
  return std::vector<int64_t>(shape.sequences, shape.rows / shape.sequences);
}

template <typename T>
T Must(absl::StatusOr<T> value) {
  EXPECT_TRUE(value.ok()) << value.status();
  if (!value.ok()) std::abort();
  return *std::move(value);
}
void Must(const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; }

void PrintHeader() {
  std::printf("%-42s %-26s %9s %9s %9s %7s\n", "model", "pass", "plan",
              "allocated", "touched", "padding");
}

void PrintLine(const std::string& model, const std::string& pass, int64_t plan,
               int64_t allocated, int64_t touched) {
  std::printf(
      "%-42s %-26s %9ld %9ld %9ld %6.2f%%\n", model.c_str(), pass.c_str(),
      static_cast<long>(plan), static_cast<long>(allocated),
      static_cast<long>(touched),
      100.0 * static_cast<double>(plan - touched) / static_cast<double>(plan));
}

// --- One pass ---

struct PassRun {
  int64_t allocated = 0;          // weights and arena
  std::vector<uint8_t> contents;  // of the same, afterwards
  std::vector<float> results;     // what the host saw
};

struct Pass {
  Mode mode;
  Precision precision = Precision::kFloat32;
};

// Training keeps no packed weights.
MemoryPlan PassPlan(const Model& model, const Pass& pass, BatchShape shape) {
  if (pass.mode == Mode::kInference) {
    return InferencePlan(model, shape, DeviceKind::kCpu, pass.precision);
  }
  MemoryPlan plan;
  plan.weights = model.parameters().buffer_size() * sizeof(float);
  if (shape.rows > 0) {
    plan.activations =
        Executor::ArenaBytes(model, pass.mode, shape.rows, shape.sequences);
  }
  return plan;
}

// A pass and all that may follow it, on a device whose memory holds `sentinel`.
PassRun RunPass(std::shared_ptr<const Model> model, const Pass& pass,
                BatchShape shape, uint8_t sentinel) {
  const auto live = std::make_shared<LiveBuffers>();
  SentinelBackend device(CreateCpuBackend(1), sentinel, live);
  Ledger::Options options;
  options.name = "devices/0";
  Ledger ledger(options);
  const MemoryPlan plan = PassPlan(*model, pass, shape);
  const Ledger::Reservation held = Must(ledger.Reserve("pass", plan));
  AccountBackend backend(device, held.account());

  const std::vector<float> parameters = InitializeParameters(*model, 1);
  const int64_t bytes = parameters.size() * sizeof(float);
  const auto weights = Must(backend.Allocate(bytes));
  Must(backend.Upload(weights->data(), parameters.data(), bytes));
  const auto executor = Must(Executor::Create(
      model, backend, static_cast<const float*>(weights->data()),
      pass.mode == Mode::kInference ? ParameterUse::kFixed
                                    : ParameterUse::kTrained,
      pass.precision));

  const Call call = RandomCall(*model, EqualLengths(shape), 3);
  const std::vector<int64_t> positions(shape.sequences, 7);
  ForwardArgs forward;
  forward.batch = &call.batch;
  forward.mode = pass.mode;
  forward.random.positions = positions;
  Must(executor->Forward(forward).status());
  PassRun run;
  if (pass.mode == Mode::kInference) {
    const LossResult loss = Must(executor->Loss(call.targets));
    run.results = {static_cast<float>(loss.loss)};
  } else {
    const auto other = CreateCpuBackend(1);
    const auto gradients = Must(other->Allocate(bytes));
    BackwardArgs backward;
    backward.gradients = static_cast<float*>(gradients->data());
    Must(executor->LossAndBackward(call.targets, backward).status());
    run.results.resize(parameters.size());
    Must(other->Download(run.results.data(), gradients->data(), bytes));
  }
  run.allocated = held.used_bytes();
  EXPECT_EQ(run.allocated, plan.total());
  EXPECT_EQ(run.allocated, live->bytes());
  run.contents = live->Contents();
  return run;
}

TEST(Plan, OfAPassIsWhatIsAllocatedAndTouched) {
  PrintHeader();
  const std::pair<Pass, const char*> passes[] = {
      {{Mode::kInference}, "inference"},
      {{Mode::kInference, Precision::kBfloat16}, "bf16"},
      {{Mode::kInference, Precision::kInt8}, "int8"},
      {{Mode::kGradients}, "gradients"},
      {{Mode::kTraining}, "training"}};
  for (const NamedModel& named : Models()) {
    const auto model = MakeModel(named.text);
    for (const auto& [pass, pass_name] : passes) {
      for (const BatchShape shape :
           {BatchShape{200, 1}, BatchShape{600, 12}, BatchShape{333, 111}}) {
        SCOPED_TRACE(absl::StrCat(named.name, ", ", pass_name, ", ", shape.rows,
                                  " rows, ", shape.sequences));
        const PassRun first = RunPass(model, pass, shape, kSentinels[0]);
        const PassRun second = RunPass(model, pass, shape, kSentinels[1]);
        // Nothing was read that had not been written.
        EXPECT_TRUE(SameBits(first.results, second.results));
        const int64_t touched = TouchedBytes(first.contents, kSentinels[0],
                                             second.contents, kSentinels[1]);
        EXPECT_GE(touched, 0.99 * static_cast<double>(first.allocated));
        PrintLine(
            named.name,
            absl::StrCat(pass_name, " N=", shape.rows, " B=", shape.sequences),
            first.allocated, first.allocated, touched);
      }
    }
  }
}

// The arena alone, where a small share of the whole could hide behind weights.
TEST(Plan, OfAnArenaHasNothingButPaddingThatIsNotTouched) {
  for (const NamedModel& named : Models()) {
    const auto model = MakeModel(named.text);
    for (const Mode mode :
         {Mode::kInference, Mode::kGradients, Mode::kTraining}) {
      SCOPED_TRACE(named.name);
      const int64_t weights = PassPlan(*model, {mode}, {}).total();
      const BatchShape shape = {384, 16};
      const PassRun first = RunPass(model, {mode}, shape, kSentinels[0]);
      const PassRun second = RunPass(model, {mode}, shape, kSentinels[1]);
      const int64_t untouched =
          first.allocated - TouchedBytes(first.contents, kSentinels[0],
                                         second.contents, kSentinels[1]);
      EXPECT_LT(untouched, 0.01 * (first.allocated - weights));
    }
  }
}

// --- Training on several devices ---

struct TrainingCase {
  int world_size;
  int micro_batches;
  const char* optimizer;
  int num_moments;
  int accumulation_steps;
};

struct DeviceRun {
  int64_t allocated;
  std::vector<uint8_t> contents;
};

constexpr int64_t kLength = 48;
constexpr int64_t kSequences = 4;  // of a micro-batch
constexpr int64_t kMicroBatchRows = kSequences * kLength;

int Threads(int rank) { return 1 + rank % 2; }

// Three calls; then what each device holds.
std::vector<DeviceRun> RunTraining(const NamedModel& named,
                                   const TrainingCase& c, uint8_t sentinel) {
  // Budgets that nobody reaches tell the devices apart.
  std::vector<std::string> specs;
  std::map<std::string, std::shared_ptr<LiveBuffers>> live;
  for (int rank = 0; rank < c.world_size; ++rank) {
    specs.push_back(
        absl::StrCat("cpu:", Threads(rank), ":memory=", 100 + rank, "GiB"));
    live[specs.back()] = std::make_shared<LiveBuffers>();
  }
  TestTrainer trainer(
      absl::StrJoin(specs, ","), named.text,
      absl::StrCat(
          "optimizer { ", c.optimizer,
          " } learning_rate { peak: 0.01 } micro_batch_rows: ", kMicroBatchRows,
          " accumulation_steps: ", c.accumulation_steps),
      [&](const DeviceSpec& spec) {
        return std::make_unique<SentinelBackend>(CreateCpuBackend(spec.threads),
                                                 sentinel, live.at(spec.text));
      });
  for (int call = 0; call < 3; ++call) {
    trainer.Step(RandomCall(
        trainer.model(),
        std::vector<int64_t>(kSequences * c.micro_batches, kLength), call));
  }
  std::vector<DeviceRun> runs;
  for (int rank = 0; rank < c.world_size; ++rank) {
    runs.push_back({trainer.pool().device(rank).ledger().Snapshot().used_bytes,
                    live.at(specs[rank])->Contents()});
  }
  return runs;
}

MemoryPlan PlanOf(const Model& model, const TrainingCase& c, int rank) {
  const std::vector<int64_t> rows(c.micro_batches, kMicroBatchRows);
  std::vector<int64_t> speeds;
  for (int r = 0; r < c.world_size; ++r) speeds.push_back(Threads(r));
  const std::vector<Range> assignment = AssignMicroBatches(rows, speeds);
  TrainingShape shape;
  if (!assignment[rank].empty()) {
    shape.largest_micro_batch = {kMicroBatchRows, kSequences};
  }
  shape.num_moments = c.num_moments;
  shape.accumulates = c.accumulation_steps > 1;
  shape.rank = rank;
  shape.world_size = c.world_size;
  shape.live_partials =
      std::max<int64_t>(1, LivePartials(c.micro_batches, assignment[rank]));
  shape.exchange_pieces = ExchangePieces(c.micro_batches, assignment);
  return TrainingPlan(model, shape);
}

TEST(Plan, OfTrainingIsWhatEveryDeviceAllocatesAndTouches) {
  PrintHeader();
  const TrainingCase cases[] = {
      {1, 1, "sgd {}", 0, 1},
      {1, 6, "adamw {}", 2, 4},
      {2, 5, "sgd { momentum: 0.9 }", 1, 1},
      {3, 13, "adam {}", 2, 4},
      {3, 2, "adam {}", 2, 1},
  };
  for (const NamedModel& named : Models()) {
    const auto model = MakeModel(named.text);
    for (const TrainingCase& c : cases) {
      const auto first = RunTraining(named, c, kSentinels[0]);
      const auto second = RunTraining(named, c, kSentinels[1]);
      for (int rank = 0; rank < c.world_size; ++rank) {
        const std::string pass =
            absl::StrCat(c.micro_batches, " on ", rank + 1, "/", c.world_size,
                         ", ", c.num_moments, " moments");
        SCOPED_TRACE(absl::StrCat(named.name, ", ", pass));
        const int64_t plan = PlanOf(*model, c, rank).total();
        EXPECT_EQ(first[rank].allocated, plan);
        const int64_t touched =
            TouchedBytes(first[rank].contents, kSentinels[0],
                         second[rank].contents, kSentinels[1]);
        EXPECT_GE(touched, 0.99 * static_cast<double>(plan));
        PrintLine(named.name, pass, plan, first[rank].allocated, touched);
      }
    }
  }
}

// Whatever the assignment, the plan made before it is known is enough.
TEST(Plan, BeforeTheAssignmentIsKnownIsEnough) {
  for (int64_t count = 1; count <= 40; ++count) {
    for (int world_size = 1; world_size <= 4; ++world_size) {
      for (int64_t slow = 1; slow <= 5; slow += 2) {
        const std::vector<int64_t> rows(count, 100);
        std::vector<int64_t> speeds(world_size, 3);
        speeds[count % world_size] = slow;
        const auto assignment = AssignMicroBatches(rows, speeds);
        EXPECT_LE(ExchangePieces(count, assignment),
                  MaxExchangePieces(count, world_size));
        for (const Range range : assignment) {
          EXPECT_LE(LivePartials(count, range),
                    MaxLivePartials(count, world_size));
        }
      }
    }
  }
}

}  // namespace
}  // namespace recurve
