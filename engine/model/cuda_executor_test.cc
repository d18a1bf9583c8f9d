// Whole models on a CUDA device, of the emulation, against the CPU. Memory of
// the device that the host touched would end the test.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/executor_test_util.h"
#include "engine/model/test_models.h"
#include "gtest/gtest.h"
#include "kernels/cuda/backend.h"
#include "kernels/forwarding_backend.h"

namespace recurve {
namespace {

class CudaExecutorTest : public ::testing::Test {
 protected:
  CudaExecutorTest() {
    auto backend = CreateCudaBackend(0);
    EXPECT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
  }
  std::unique_ptr<Backend> Device() {
    return std::make_unique<ForwardingBackend>(*backend_);
  }

  std::unique_ptr<Backend> backend_;
};

double WorstError(const std::vector<float>& got,
                  const std::vector<float>& want) {
  if (got.size() != want.size()) return HUGE_VAL;
  double worst = 0, largest = 1;
  for (size_t i = 0; i < want.size(); ++i) {
    const double difference = std::abs(double{got[i]} - double{want[i]});
    if (!(difference <= worst)) worst = difference;  // NaN too
    largest = std::max(largest, std::abs(double{want[i]}));
  }
  return worst / largest;
}

TEST_F(CudaExecutorTest, OutputsAreTheCpusForEveryLayout) {
  for (const std::string& textproto : ModelsOfEveryLayout()) {
    TestExecutor cpu(textproto), cuda(textproto, Device());
    const SequenceBatch batch = RandomBatch(cpu.model(), {3, 0, 7, 1}, 5);
    ForwardArgs args;
    args.batch = &batch;
    EXPECT_LT(WorstError(cuda.Output(args), cpu.Output(args)), 1e-4)
        << textproto;
  }
}

TEST_F(CudaExecutorTest, PassesThatComeBackSeeTheirOwnBatch) {
  const std::string textproto =
      "input { token_embedding { vocabulary_size: 11 embedding_size: 6 } } "
      "blocks { sru { hidden_size: 6 } } "
      "blocks { name: 'q' qrnn { hidden_size: 5 window: 2 } } "
      "output { linear { size: 4 } }";
  TestExecutor cpu(textproto), cuda(textproto, Device());
  for (uint32_t seed = 1; seed <= 5; ++seed) {
    const SequenceBatch batch = RandomBatch(cpu.model(), {4, 4}, seed);
    ForwardArgs args;
    args.batch = &batch;
    EXPECT_LT(WorstError(cuda.Output(args), cpu.Output(args)), 1e-5) << seed;
  }
}

TEST_F(CudaExecutorTest, GradientsAreTheCpus) {
  for (const char* textproto :
       {"input { token_embedding { vocabulary_size: 11 embedding_size: 6 } "
        "dropout: 0.2 } blocks { sru { hidden_size: 6 layer_norm: true "
        "normalize_after: true dropout: 0.2 rnn_dropout: 0.1 } } "
        "output { linear { size: 11 tied: true } } "
        "loss { kind: CROSS_ENTROPY }",
        "input { features { size: 5 } } blocks { qrnn { hidden_size: 7 window: "
        "2 zoneout: 0.2 bidirectional: true } } output { pooling: POOLING_MEAN "
        "linear { size: 3 } } loss { kind: MEAN_SQUARED_ERROR }"}) {
    TestExecutor cpu(textproto), cuda(textproto, Device());
    const SequenceBatch batch = RandomBatch(cpu.model(), {3, 0, 7, 1}, 5);
    const Targets targets = RandomTargets(cpu.model(), batch, 6);
    ForwardArgs args;
    args.batch = &batch;
    args.mode = Mode::kTraining;
    cpu.Forward(args);
    cuda.Forward(args);
    EXPECT_LT(WorstError(cuda.Gradients(targets), cpu.Gradients(targets)), 1e-4)
        << textproto;
  }
}

}  // namespace
}  // namespace recurve
