// Trains small models of both cells on one GPU, on the same GPU named two and
// three times, and on CPU cores. The weights of the GPU runs must agree in
// every bit; those of the CPU nearly. Exits 0 if they do.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/train/trainer_test_util.h"

ABSL_FLAG(std::string, device, "cuda:0", "the GPU");

namespace recurve::gpu {
namespace {

constexpr int kSteps = 10;
// Of weights near 1 after a few steps of Adam, whose division stretches the
// rounding errors of small gradients.
constexpr double kTolerance = 1e-3;

constexpr char kConfig[] =
    "optimizer { adam {} } learning_rate { peak: 0.01 } micro_batch_rows: 16 "
    "seed: 3";

struct NamedModel {
  const char* name;
  const char* config;
};

constexpr NamedModel kModels[] = {
    {"SRU", R"(
      input { token_embedding { vocabulary_size: 50 embedding_size: 24 }
              dropout: 0.1 }
      blocks { sru { hidden_size: 24 num_layers: 2 dropout: 0.2
                     layer_norm: true } }
      output { linear { size: 50 } }
      loss { kind: CROSS_ENTROPY })"},
    {"QRNN", R"(
      input { token_embedding { vocabulary_size: 50 embedding_size: 24 } }
      blocks { qrnn { hidden_size: 33 num_layers: 2 window: 2 zoneout: 0.1 } }
      output { linear { size: 50 } }
      loss { kind: CROSS_ENTROPY })"},
};

std::vector<float> Train(const std::string& devices, const char* model) {
  TestTrainer trainer(devices, model, kConfig);
  for (int step = 0; step < kSteps; ++step) {
    trainer.Step(RandomCall(trainer.model(), {7, 1, 33, 12, 20, 5}, step));
  }
  return trainer.Parameters();
}

bool CheckModel(const NamedModel& model) {
  const std::string device = absl::GetFlag(FLAGS_device);
  const std::vector<float> on_cpu = Train("cpu:1", model.config);
  const std::vector<float> on_one = Train(device, model.config);
  bool good = true;
  for (const int count : {2, 3}) {
    const std::vector<std::string> devices(count, device);
    if (SameBits(Train(absl::StrJoin(devices, ","), model.config), on_one)) {
      continue;
    }
    std::printf("%s: %d devices give other weights than one\n", model.name,
                count);
    good = false;
  }
  const double difference = MaxDifference(on_one, on_cpu);
  std::printf(
      "%s: %d steps, weights of 1, 2 and 3 devices %s, largest "
      "difference to the CPU %.2g\n",
      model.name, kSteps, good ? "equal" : "NOT equal", difference);
  return good && difference <= kTolerance;
}

int Main() {
  bool good = true;
  for (const NamedModel& model : kModels) good = CheckModel(model) && good;
  return good ? 0 : 1;
}

}  // namespace
}  // namespace recurve::gpu

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return recurve::gpu::Main();
}
