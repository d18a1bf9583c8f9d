// In a steady state, passes of the shapes that were there before, nothing is
// taken from the heap on the way of the numbers:
//
//   Executor            an inference pass
//   a device's threads  all that they do for a call of Trainer::Step: forward,
//                       loss, backward, sums, exchange, update, and the queue
//                       that its tasks come from
//
// Outside are the threads that ask, the RPCs' with gRPC among them. On its
// caller's thread Trainer::Step plans the call and the memory that it needs,
// makes the tasks and the reply: some dozens of small allocations, however many
// rows there are.
#include <cstdint>
#include <memory>

#include "engine/model/executor.h"
#include "engine/model/executor_test_util.h"
#include "engine/model/sequence_batch.h"
#include "engine/train/trainer_test_util.h"
#include "gtest/gtest.h"
#include "kernels/cpu/backend.h"
#include "tests/memory/allocation_count.h"

namespace recurve {
namespace {

constexpr int kWarmUp = 3;
constexpr int kTurns = 4;
constexpr int64_t kMostByCaller = 120;  // in a call of Step

// Every kind of layer, input and end.
const char* const kModels[] = {
    "input { token_embedding { vocabulary_size: 50 embedding_size: 40 } "
    "dropout: 0.2 } "
    "blocks { sru { hidden_size: 64 num_layers: 3 dropout: 0.2 "
    "rnn_dropout: 0.2 } } "
    "output { dropout: 0.2 linear { size: 50 } } "
    "loss { kind: CROSS_ENTROPY }",
    "input { token_embedding { vocabulary_size: 50 embedding_size: 40 } } "
    "blocks { qrnn { hidden_size: 40 window: 2 zoneout: 0.1 } } "
    "output { linear { size: 50 tied: true } } loss { kind: CROSS_ENTROPY }",
    "input { features { size: 48 } } "
    "blocks { sru { hidden_size: 36 bidirectional: true layer_norm: true "
    "normalize_after: true projection_size: 10 "
    "proj_input_to_hidden_first: true } } "
    "output { pooling: POOLING_MAX linear { size: 7 } } "
    "loss { kind: CROSS_ENTROPY }",
    "input { features { size: 48 } } "
    "blocks { sru { hidden_size: 32 num_layers: 1 } } "
    "blocks { name: 'b' qrnn { hidden_size: 32 bidirectional: true "
    "output_gate: false } "
    "} "
    "loss { kind: MEAN_SQUARED_ERROR }",
};

// How much of the heap `turn` takes once it has been made a few times.
template <typename F>
AllocationCount InSteadyState(bool report_here, const F& turn) {
  for (int i = 0; i < kWarmUp; ++i) turn();
  ReportAllocations(report_here);
  const AllocationCount before = CountAllocations();
  for (int i = 0; i < kTurns; ++i) turn();
  const AllocationCount after = CountAllocations();
  StopReports();
  return {after.here - before.here, after.elsewhere - before.elsewhere};
}

class AllocationsTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!AllocationsAreCounted()) GTEST_SKIP() << "a sanitizer has malloc";
  }
};
INSTANTIATE_TEST_SUITE_P(, AllocationsTest, ::testing::ValuesIn(kModels));

// Else that there are none would say nothing.
TEST_P(AllocationsTest, AreCounted) {
  std::unique_ptr<int> number;
  const AllocationCount before = CountAllocations();
  number = std::make_unique<int>(1);
  EXPECT_EQ(CountAllocations().here, before.here + 1);
}

TEST_P(AllocationsTest, NoneInAnInferencePass) {
  for (const int threads : {1, 2}) {
    TestExecutor test(GetParam(), CreateCpuBackend(threads),
                      ParameterUse::kFixed);
    const SequenceBatch batch = RandomBatch(test.model(), {60, 3, 40}, 1);
    const SequenceBatch step = RandomBatch(test.model(), {1, 1}, 2);
    const AllocationCount count = InSteadyState(/*report_here=*/true, [&] {
      for (const SequenceBatch* rows : {&batch, &step}) {
        ForwardArgs args;
        args.batch = rows;
        EXPECT_TRUE(test.executor().Forward(args).ok());
      }
    });
    EXPECT_EQ(count.here + count.elsewhere, 0) << threads << " threads";
  }
}

// Several micro-batches, whose sums two devices exchange; every second call
// ends a step.
TEST_P(AllocationsTest, NoneOnDevicesThatTrain) {
  for (const char* devices : {"cpu:1", "cpu:2", "cpu:1,cpu:2"}) {
    TestTrainer trainer(devices, GetParam(),
                        "optimizer { adam {} } learning_rate { peak: 0.001 } "
                        "max_gradient_norm: 1 micro_batch_rows: 64 "
                        "accumulation_steps: 2");
    const Call call =
        RandomCall(trainer.model(), {60, 60, 1, 90, 30, 30, 17, 60}, 1);
    const AllocationCount count = InSteadyState(/*report_here=*/false, [&] {
      trainer.Step(call);
      trainer.Step(call);
    });
    EXPECT_EQ(count.elsewhere, 0) << devices;
    EXPECT_LT(count.here, 2 * kTurns * kMostByCaller) << devices;
  }
}

}  // namespace
}  // namespace recurve
