// JSON Lines: what is read is packed, without empty sequences, and has a target
// for each row or each sequence.

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "engine/data/json_lines.h"
#include "tests/fuzz/check.h"

namespace recurve {
namespace {

int64_t Size(const auto& values) { return static_cast<int64_t>(values.size()); }

void CheckSequences(const SequenceDataset& dataset) {
  const SequenceBatch& batch = dataset.sequences;
  FUZZ_CHECK(batch.num_sequences() > 0 && batch.cu_seqlens[0] == 0);
  for (size_t i = 1; i < batch.cu_seqlens.size(); ++i) {
    FUZZ_CHECK(batch.cu_seqlens[i] > batch.cu_seqlens[i - 1]);
  }
  const bool tokens = dataset.feature_size == 0;
  FUZZ_CHECK(Size(batch.tokens) == (tokens ? batch.num_rows() : 0));
  FUZZ_CHECK(Size(batch.features) == dataset.feature_size * batch.num_rows());
  for (const float value : batch.features) FUZZ_CHECK(std::isfinite(value));
}

void CheckTargets(const SequenceDataset& dataset) {
  const int64_t rows = dataset.per_step ? dataset.sequences.num_rows()
                                        : dataset.sequences.num_sequences();
  const Targets& targets = dataset.targets;
  const bool classes = dataset.target_size == 0;
  FUZZ_CHECK(Size(targets.classes) == (classes ? rows : 0));
  FUZZ_CHECK(Size(targets.values) == dataset.target_size * rows);
  FUZZ_CHECK(targets.weights.empty() || Size(targets.weights) == rows);
  for (const float value : targets.values) FUZZ_CHECK(std::isfinite(value));
  for (const float weight : targets.weights) FUZZ_CHECK(weight >= 0);
}

}  // namespace
}  // namespace recurve

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto dataset =
      recurve::ParseJsonLines({reinterpret_cast<const char*>(data), size});
  if (!dataset.ok()) return 0;
  recurve::CheckSequences(*dataset);
  recurve::CheckTargets(*dataset);
  return 0;
}
