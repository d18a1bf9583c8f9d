// Training on CUDA devices, of the emulation: the weights are the same bits on
// any number of them, with replayed passes or without, and the CPU's but for
// rounding. Memory of a device that the host touched would end the test.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/model/initialize.h"
#include "engine/model/test_models.h"
#include "engine/train/trainer_test_util.h"
#include "gtest/gtest.h"
#include "kernels/cuda/backend.h"
#include "kernels/forwarding_backend.h"

namespace recurve {
namespace {

// Does operations every time instead of repeating what they issued.
class WithoutReplay : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  absl::Status Replay(std::unique_ptr<Recording>&,
                      absl::FunctionRef<absl::Status()> operations) override {
    return operations();
  }
};

std::unique_ptr<Backend> Create(int ordinal) {
  auto backend = CreateCudaBackend(ordinal);
  EXPECT_TRUE(backend.ok()) << backend.status();
  return *std::move(backend);
}

BackendFactory Cuda(bool replay) {
  return [replay](const DeviceSpec& spec) -> std::unique_ptr<Backend> {
    auto backend = Create(spec.ordinal);
    if (replay) return backend;
    return std::make_unique<WithoutReplay>(std::move(backend));
  };
}

struct Case {
  const char* name;
  const char* model;
  const char* config;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class CudaTrainerTest : public ::testing::TestWithParam<Case> {
 protected:
  // Six calls of equal shape, so that passes come back; streams go on from the
  // fourth call on.
  std::vector<float> Train(const std::string& devices, BackendFactory factory) {
    TestTrainer trainer(devices, GetParam().model, GetParam().config,
                        std::move(factory));
    const std::vector<int64_t> lengths = {9, 16, 1, 33, 7, 0, 12};
    for (uint32_t i = 0; i < 6; ++i) {
      Call call = RandomCall(trainer.model(), lengths, i);
      call.continue_streams = i >= 3 && !trainer.model().bidirectional();
      trainer.Step(call);
    }
    return trainer.Parameters();
  }
};

// Some GPU is always there twice: GPUs of which each is there once are
// connected by NCCL, which has no emulation.
constexpr char kOne[] = "cuda:0";
constexpr char kTwo[] = "cuda:0,cuda:0";
constexpr char kThree[] = "cuda:0,cuda:1,cuda:0";

TEST_P(CudaTrainerTest, WeightsAreByteIdenticalOnAnyDevices) {
  const std::vector<float> expected = Train(kOne, Cuda(true));
  const auto initial = InitializeParameters(*MakeModel(GetParam().model), 1);
  ASSERT_GT(MaxDifference(initial, expected), 1e-4);
  for (const char* devices : {kTwo, kThree}) {
    const std::vector<float> weights = Train(devices, Cuda(true));
    EXPECT_TRUE(SameBits(weights, expected))
        << devices << ": differ by " << MaxDifference(weights, expected);
  }
}

TEST_P(CudaTrainerTest, ReplayingChangesNothing) {
  const std::vector<float> with = Train(kTwo, Cuda(true));
  const std::vector<float> without = Train(kTwo, Cuda(false));
  EXPECT_TRUE(SameBits(with, without))
      << "differ by " << MaxDifference(with, without);
}

// Adam divides by the gradient's size, and so makes much of the rounding of
// the smallest ones: SGD here, in the configs below.
TEST_P(CudaTrainerTest, WeightsAreTheCpusButForRounding) {
  EXPECT_LT(
      MaxDifference(Train(kOne, Cuda(true)), Train("cpu:1", CreateBackend)),
      2e-5);
}

INSTANTIATE_TEST_SUITE_P(
    Models, CudaTrainerTest,
    ::testing::Values(
        Case{"Sru",
             "input { token_embedding { vocabulary_size: 30 embedding_size: 12 "
             "} dropout: 0.2 } "
             "blocks { sru { hidden_size: 16 dropout: 0.2 rnn_dropout: 0.2 "
             "layer_norm: true } } "
             "output { linear { size: 20 } dropout: 0.2 } "
             "loss { kind: CROSS_ENTROPY }",
             "optimizer { sgd {} } learning_rate { peak: 0.1 } "
             "micro_batch_rows: 16 max_gradient_norm: 0.5 seed: 7"},
        Case{"Qrnn",
             "input { token_embedding { vocabulary_size: 30 embedding_size: 12 "
             "} } blocks { qrnn { hidden_size: 17 num_layers: 2 window: 2 "
             "zoneout: 0.1 dropout: 0.2 save_prev_x: true } } "
             "output { linear { size: 20 } } loss { kind: CROSS_ENTROPY }",
             "optimizer { sgd { momentum: 0.9 weight_decay: 0.001 } } "
             "learning_rate { peak: 0.1 } micro_batch_rows: 16 "
             "accumulation_steps: 2 seed: 8"},
        Case{"BidirectionalSruPooled",
             "input { features { size: 10 } dropout: 0.2 } "
             "blocks { sru { hidden_size: 8 bidirectional: true dropout: 0.2 "
             "} } output { pooling: POOLING_MAX linear { size: 5 } } "
             "loss { kind: MEAN_SQUARED_ERROR }",
             "optimizer { sgd {} } learning_rate { peak: 0.1 } "
             "micro_batch_rows: 16 seed: 9"}),
    [](const auto& info) { return info.param.name; });

// Adam and AdamW, whose updates the others do not reach.
TEST(CudaTrainerAdamTest, WeightsAreByteIdenticalOnAnyDevices) {
  for (const char* optimizer :
       {"adam { weight_decay: 0.01 }", "adamw { weight_decay: 0.1 }"}) {
    const auto train = [&](const char* devices) {
      TestTrainer trainer(
          devices,
          "input { features { size: 6 } } blocks { sru { hidden_size: 8 } } "
          "output { linear { size: 5 } } loss { kind: CROSS_ENTROPY }",
          "optimizer { " + std::string(optimizer) +
              " } learning_rate { peak: 0.01 } micro_batch_rows: 8",
          Cuda(true));
      for (uint32_t i = 0; i < 3; ++i) {
        trainer.Step(RandomCall(trainer.model(), {7, 9, 8, 1}, i));
      }
      return trainer.Parameters();
    };
    EXPECT_TRUE(SameBits(train(kOne), train(kThree))) << optimizer;
  }
}

}  // namespace
}  // namespace recurve
