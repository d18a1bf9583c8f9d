// Training on devices whose products take bf16 factors, products=bf16: 8
// significant bits. Weights, states, sums and the optimizer stay float32.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "engine/model/executor_test_util.h"
#include "engine/model/initialize.h"
#include "engine/model/model.h"
#include "engine/model/test_models.h"
#include "engine/train/trainer_test_util.h"
#include "gtest/gtest.h"
#include "kernels/cpu/backend.h"
#include "kernels/precision.h"

namespace recurve {
namespace {

constexpr char kSruModel[] =
    "input { token_embedding { vocabulary_size: 60 embedding_size: 24 } } "
    "blocks { sru { hidden_size: 40 layer_norm: true } } "
    "output { linear { size: 48 } } loss { kind: CROSS_ENTROPY }";
constexpr char kQrnnModel[] =
    "input { token_embedding { vocabulary_size: 60 embedding_size: 24 } } "
    "blocks { qrnn { hidden_size: 33 num_layers: 2 window: 2 } } "
    "output { linear { size: 48 } } loss { kind: CROSS_ENTROPY }";

// --- The gradient ---

// The rounded factors of a product differ from the exact ones by 2^-9 each at
// most, relative to themselves, so the product by 2^-8. A gradient has this
// many products behind it: two layers and the output, there and back, and that
// of its own weights. Their errors are independent of each other: squares add.
constexpr double kProducts = 7;
const double kRelativeError = std::sqrt(kProducts) / 256;

std::vector<float> Gradient(const char* model, Precision precision) {
  TestExecutor test(model, CreateCpuBackend(1, precision));
  const SequenceBatch batch = RandomBatch(test.model(), {40, 1, 90, 17}, 3);
  ForwardArgs forward;
  forward.batch = &batch;
  forward.mode = Mode::kTraining;
  test.Forward(forward);
  return test.Gradients(RandomTargets(test.model(), batch, 4));
}

double Norm(absl::Span<const float> numbers) {
  double squares = 0;
  for (const float x : numbers) squares += double{x} * x;
  return std::sqrt(squares);
}

double DistanceOf(absl::Span<const float> a, absl::Span<const float> b) {
  std::vector<float> difference(a.begin(), a.end());
  for (size_t i = 0; i < a.size(); ++i) difference[i] -= b[i];
  return Norm(difference);
}

class Bfloat16Training : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, Bfloat16Training,
                         ::testing::Values(kSruModel, kQrnnModel));

TEST_P(Bfloat16Training, GradientDiffersByTheRoundingOfFactorsAlone) {
  const std::vector<float> exact = Gradient(GetParam(), Precision::kFloat32);
  const std::vector<float> rounded = Gradient(GetParam(), Precision::kBfloat16);
  const auto model = MakeModel(GetParam());
  for (const Parameter& p : model->parameters().parameters()) {
    if (!p.trainable) continue;
    const auto of = [&](const std::vector<float>& gradient) {
      return absl::MakeConstSpan(gradient).subspan(p.offset, p.count());
    };
    const double error = DistanceOf(of(exact), of(rounded)) / Norm(of(exact));
    EXPECT_LT(error, kRelativeError) << p.name;
    EXPECT_GT(error, 0) << p.name << ": was anything rounded?";
  }
}

// --- The same weights everywhere ---

std::vector<float> Train(const char* model, const std::string& devices) {
  TestTrainer trainer(devices, model,
                      "optimizer { adam {} } learning_rate { peak: 0.01 } "
                      "max_gradient_norm: 1 micro_batch_rows: 256 seed: 7");
  for (uint32_t i = 0; i < 5; ++i) {
    trainer.Step(RandomCall(trainer.model(),
                            {100, 200, 23, 256, 1, 300, 12, 80, 170}, i));
  }
  return trainer.Parameters();
}

TEST_P(Bfloat16Training, WeightsAreByteIdenticalOnAnyDevices) {
  const std::vector<float> expected = Train(GetParam(), "cpu:1:products=bf16");
  EXPECT_FALSE(SameBits(Train(GetParam(), "cpu:1"), expected));
  for (const char* devices :
       {"cpu:2:products=bf16", "cpu:1:products=bf16,cpu:1:products=bf16",
        "cpu:1:products=bf16,cpu:2:products=bf16,cpu:1:products=bf16"}) {
    EXPECT_TRUE(SameBits(Train(GetParam(), devices), expected)) << devices;
  }
}

// --- What is learnt ---

constexpr char kTextModel[] =
    "input { token_embedding { vocabulary_size: 128 embedding_size: 32 } } "
    "blocks { sru { hidden_size: 64 layer_norm: true highway_bias: -2 } } "
    "output { linear { size: 128 } } loss { kind: CROSS_ENTROPY }";
constexpr int kSteps = 300;
constexpr int64_t kHeldOut = 4000;  // characters, the last ones

// The text of the library's checkpoints; its characters are ASCII.
std::vector<int32_t> Text() {
  std::ifstream file("tests/testdata/checkpoints/heldout.txt");
  return {std::istreambuf_iterator<char>(file),
          std::istreambuf_iterator<char>()};
}

// Adds a sequence in which each character predicts the next.
void Append(absl::Span<const int32_t> text, Call& call) {
  const int64_t rows = static_cast<int64_t>(text.size()) - 1;
  call.batch.cu_seqlens.push_back(call.batch.num_rows() + rows);
  call.batch.tokens.insert(call.batch.tokens.end(), text.begin(),
                           text.end() - 1);
  call.targets.classes.insert(call.targets.classes.end(), text.begin() + 1,
                              text.end());
}

// Nats a character after training from this seed, which is that of the initial
// weights and of the choice of text.
double HeldOutLoss(const std::string& devices, uint32_t seed) {
  constexpr int64_t kSequences = 8, kLength = 65;
  const std::vector<int32_t> text = Text();
  const auto part = absl::MakeConstSpan(text);
  const int64_t trained = part.size() - kHeldOut;
  TestTrainer trainer(devices, kTextModel,
                      "optimizer { adam {} } learning_rate { peak: 0.01 "
                      "warmup_cosine { warmup_steps: 20 total_steps: 300 } } "
                      "max_gradient_norm: 1");
  TrainerState start;
  start.parameters = InitializeParameters(trainer.model(), seed);
  EXPECT_TRUE(trainer->Load(std::move(start), /*weights_only=*/true).ok());
  std::mt19937 random(seed);
  for (int step = 0; step < kSteps; ++step) {
    Call call;
    for (int64_t i = 0; i < kSequences; ++i) {
      Append(part.subspan(random() % (trained - kLength), kLength), call);
    }
    trainer.Step(call);
  }
  Call held_out;
  Append(part.subspan(trained), held_out);
  return trainer.Step(held_out).loss;  // before its update
}

// One seed's float32 loss may lie as far from another's as chance takes it; a
// bf16 loss lies no further from that of its own seed. Measured figures:
// docs/determinism.md.
TEST(Bfloat16TextModel, LearnsWithinTheNoiseOfFloat32) {
  std::vector<double> exact, differences;
  for (uint32_t seed = 1; seed <= 4; ++seed) {
    exact.push_back(HeldOutLoss("cpu:1", seed));
    const double rounded = HeldOutLoss("cpu:1:products=bf16", seed);
    differences.push_back(std::abs(rounded - exact.back()));
    std::printf("seed %u: float32 %.4f, bf16 %.4f\n", seed, exact.back(),
                rounded);
  }
  const auto [least, most] = std::minmax_element(exact.begin(), exact.end());
  EXPECT_LT(*most, 2.8) << "nothing was learnt";
  for (const double difference : differences) {
    EXPECT_LT(difference, *most - *least);
  }
}

}  // namespace
}  // namespace recurve
