#include "tests/faults/workload.h"

#include <cstdlib>
#include <random>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"

namespace recurve::faults {
namespace {

template <typename Message>
Message FromText(const char* text) {
  Message message;
  if (!google::protobuf::TextFormat::ParseFromString(text, &message)) abort();
  return message;
}

v1::TrainSpec Finish(const char* text, const std::string& model,
                     const std::string& dataset, int64_t steps) {
  auto spec = FromText<v1::TrainSpec>(text);
  spec.set_model(absl::StrCat("models/", model));
  spec.mutable_data()->set_dataset(absl::StrCat("datasets/", dataset));
  spec.set_max_steps(steps);
  return spec;
}

}  // namespace

std::string Text(int64_t characters) {
  static constexpr const char* kWords[] = {
      "the ",      "quick ", "brown ", "fox ",  "jumps ",
      "over ",     "a ",     "lazy ",  "dog, ", "and ",
      "sleeps.\n", "Then ",  "naïve ", "cats ", "sing "};
  std::mt19937 random(3);
  std::string text;
  while (static_cast<int64_t>(text.size()) < characters) {
    text += kWords[random() % std::size(kWords)];
  }
  return text;
}

std::string JsonLines(int64_t lines) {
  std::mt19937 random(4);
  std::string text;
  for (int64_t i = 0; i < lines; ++i) {
    absl::StrAppend(&text, "{\"tokens\": [", random() % 16);
    for (uint32_t length = random() % 40 + 1; length > 0; --length) {
      absl::StrAppend(&text, ", ", random() % 16);
    }
    absl::StrAppend(&text, "]}\n");
  }
  return text;
}

v1::TrainSpec TextSpec(const std::string& model, const std::string& dataset,
                       int64_t steps) {
  return Finish(
      R"pb(
        config {
          input {
            token_embedding { embedding_size: 8 }
            dropout: 0.1
          }
          blocks { sru { hidden_size: 16 dropout: 0.1 layer_norm: true } }
          output { linear {} }
          loss { kind: CROSS_ENTROPY }
        }
        format { text {} }
        loader { batch_size: 8 unroll: 16 }
        trainer {
          optimizer { adam {} }
          learning_rate {
            peak: 0.01
            warmup_cosine { warmup_steps: 5 total_steps: 1000 }
          }
          max_gradient_norm: 1
          accumulation_steps: 2
          micro_batch_rows: 32
          seed: 7
        }
        report_every_steps: 1
        validation { fraction: 0.1 every_steps: 5 }
        checkpoints { every_steps: 2 keep_last: 2 }
        publish: LAST
      )pb",
      model, dataset, steps);
}

v1::TrainSpec SequenceSpec(const std::string& model, const std::string& dataset,
                           int64_t steps) {
  return Finish(
      R"pb(
        config {
          input { token_embedding { vocabulary_size: 16 embedding_size: 8 } }
          blocks { qrnn { hidden_size: 12 window: 2 zoneout: 0.1 } }
          blocks {
            name: "top"
            sru { hidden_size: 12 num_layers: 1 }
          }
          output { linear { size: 16 } }
          loss { kind: CROSS_ENTROPY }
        }
        format { json_lines {} }
        loader { batch_size: 12 }
        trainer {
          optimizer { sgd { momentum: 0.9 } }
          learning_rate { peak: 0.05 }
          micro_batch_rows: 64
          seed: 8
        }
        report_every_steps: 3
        validation { fraction: 0.2 every_steps: 7 }
        checkpoints { every_steps: 3 keep_last: 1 }
        publish: LAST
      )pb",
      model, dataset, steps);
}

v1::TrainSpec BytesSpec(const std::string& dataset) {
  auto spec = FromText<v1::TrainSpec>(R"pb(
    model: "models/never-trained"
    config {
      input { token_embedding { vocabulary_size: 256 embedding_size: 1 } }
      blocks { sru { hidden_size: 1 num_layers: 1 } }
      output { linear { size: 256 } }
      loss { kind: CROSS_ENTROPY }
    }
    format { text { tokenization: BYTES } }
    loader { batch_size: 1 unroll: 1048576 }
    trainer {
      optimizer { sgd {} }
      learning_rate { peak: 1 }
    }
    max_epochs: 1
  )pb");
  spec.mutable_data()->set_dataset(dataset);
  return spec;
}

v1::ModelConfig SmallConfig() {
  return FromText<v1::ModelConfig>(R"pb(
    input { token_embedding { vocabulary_size: 16 embedding_size: 4 } }
    blocks { sru { hidden_size: 6 } }
    output { linear { size: 16 } }
    loss { kind: CROSS_ENTROPY }
  )pb");
}

}  // namespace recurve::faults
