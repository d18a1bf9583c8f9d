// Whole models on a CUDA device, of the emulation, against the CPU. Memory of
// the device that the host touched would end the test.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
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

// Rows of carries in device memory, in another order than in the batch.
class Pool {
 public:
  Pool(Backend& backend, int64_t rows, int64_t cols)
      : backend_(backend),
        rows_(*backend.Allocate(rows * cols * sizeof(float))),
        indices_(*backend.Allocate(2 * rows * sizeof(int32_t))),
        matrix_(static_cast<float*>(rows_->data()), rows, cols) {
    std::vector<int32_t> indices(2 * rows);
    for (int32_t i = 0; i < rows; ++i) {
      indices[i] = i;
      indices[rows + i] = static_cast<int32_t>(rows) - 1 - i;
    }
    EXPECT_TRUE(backend.Zero(rows_->data(), rows_->bytes()).ok());
    EXPECT_TRUE(
        backend.Upload(indices_->data(), indices.data(), indices_->bytes())
            .ok());
  }

  absl::Status Gather(Matrix<float> to) {
    return backend_.CopyRows({matrix_, backwards(), to, forwards(), to.rows});
  }
  absl::Status Scatter(Matrix<float> from) {
    return backend_.CopyRows(
        {from, forwards(), matrix_, backwards(), from.rows});
  }

 private:
  const int32_t* forwards() const {
    return static_cast<const int32_t*>(indices_->data());
  }
  const int32_t* backwards() const { return forwards() + matrix_.rows; }

  Backend& backend_;
  const std::unique_ptr<DeviceBuffer> rows_;
  const std::unique_ptr<DeviceBuffer> indices_;
  const Matrix<float> matrix_;
};

TEST_F(CudaExecutorTest, PartsGoOnFromCarriesInDeviceMemory) {
  for (const char* pooling : {"POOLING_LAST", "POOLING_MEAN", "POOLING_MAX"}) {
    const std::string textproto = absl::StrCat(
        "input { features { size: 4 } } blocks { sru { hidden_size: 5 } } "
        "blocks { name: 'q' qrnn { hidden_size: 7 window: 2 } } "
        "output { pooling: ",
        pooling, " }");
    TestExecutor cpu(textproto), cuda(textproto, Device());
    const SequenceBatch whole = RandomBatch(cpu.model(), {12, 12, 12}, 5);
    ForwardArgs args;
    args.batch = &whole;
    const std::vector<float> expected = cpu.Output(args);

    Pool pool(cuda.backend(), 3, cuda.model().carry_size());
    std::vector<float> output;
    int64_t done = 0;
    for (const int64_t length : {1, 0, 6, 5}) {
      SequenceBatch part;
      for (int64_t b = 0; b < 3; ++b) {
        part.cu_seqlens.push_back((b + 1) * length);
        const auto first = whole.features.begin() + (12 * b + done) * 4;
        part.features.insert(part.features.end(), first, first + length * 4);
      }
      args.batch = &part;
      args.place_state = [&](Matrix<float> state) {
        return pool.Gather(state);
      };
      const ForwardResult result = cuda.Forward(args);
      ASSERT_TRUE(pool.Scatter(result.state).ok());
      output = cuda.ToHost(result.output);
      done += length;
    }
    EXPECT_LT(WorstError(output, expected), 1e-5) << pooling;
  }
}

TEST_F(CudaExecutorTest, GradientsOfATiledOutputAreTheCpus) {
  const std::string textproto =
      "input { token_embedding { vocabulary_size: 1030 embedding_size: 8 } } "
      "blocks { sru { hidden_size: 8 num_layers: 1 } } output { linear { size: "
      "1030 } } loss { kind: CROSS_ENTROPY }";
  TestExecutor cpu(textproto), cuda(textproto, Device());
  const SequenceBatch batch = RandomBatch(cpu.model(), {300, 0, 230}, 5);
  Targets targets = RandomTargets(cpu.model(), batch, 6);
  ForwardArgs args;
  args.batch = &batch;
  args.mode = Mode::kTraining;
  // The second time as a recording, the third without weights.
  for (int pass = 0; pass < 3; ++pass) {
    if (pass == 2) targets.weights.clear();
    cpu.Forward(args);
    cuda.Forward(args);
    double cpu_loss, cuda_loss;
    const std::vector<float> expected = cpu.Gradients(targets, &cpu_loss);
    EXPECT_LT(WorstError(cuda.Gradients(targets, &cuda_loss), expected), 1e-4);
    EXPECT_NEAR(cuda_loss, cpu_loss, 1e-5 * cpu_loss);
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
