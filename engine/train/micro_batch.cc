#include "engine/train/micro_batch.h"

#include <cstdint>
#include <vector>

namespace recurve {
namespace {

// Rows `rows` of a matrix of `cols` columns; an absent one stays absent.
template <typename T>
void CopyRows(const std::vector<T>& from, Range rows, int64_t cols,
              std::vector<T>& to) {
  to.clear();
  if (from.empty()) return;
  to.assign(from.begin() + rows.begin * cols, from.begin() + rows.end * cols);
}

}  // namespace

void CutMicroBatch(const Model& model, const SequenceBatch& batch,
                   const Targets& targets, Range sequences, MicroBatch& part) {
  const Range rows = {batch.cu_seqlens[sequences.begin],
                      batch.cu_seqlens[sequences.end]};
  CopyRows(batch.cu_seqlens, {sequences.begin, sequences.end + 1}, 1,
           part.batch.cu_seqlens);
  for (int64_t& offset : part.batch.cu_seqlens) offset -= rows.begin;
  CopyRows(batch.tokens, rows, 1, part.batch.tokens);
  CopyRows(batch.features, rows, model.feature_size(), part.batch.features);

  const Range outputs = model.pools() ? sequences : rows;
  CopyRows(targets.classes, outputs, 1, part.targets.classes);
  CopyRows(targets.values, outputs, model.output_size(), part.targets.values);
  CopyRows(targets.weights, outputs, 1, part.targets.weights);
}

ForwardArgs TrainingForward(const Model& model, const CallWork& work,
                            Range sequences, const MicroBatch& part) {
  ForwardArgs forward;
  forward.batch = &part.batch;
  forward.mode = Mode::kTraining;
  if (!work.states.empty()) {
    forward.state = work.states.subspan(sequences.begin * model.state_size(),
                                        sequences.size() * model.state_size());
  }
  forward.random.seed = work.seed;
  forward.random.step = static_cast<uint64_t>(work.step);
  forward.random.accumulation = static_cast<uint32_t>(work.accumulation);
  forward.random.first_sequence = sequences.begin;
  if (!work.positions.empty()) {
    forward.random.positions =
        work.positions.subspan(sequences.begin, sequences.size());
  }
  return forward;
}

double TotalWeight(const Model& model, const SequenceBatch& batch,
                   const Targets& targets) {
  const int64_t rows = model.pools() ? batch.num_sequences() : batch.num_rows();
  double weight = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const bool ignored =
        !targets.classes.empty() && targets.classes[r] == model.ignore_index();
    if (!ignored) weight += targets.weights.empty() ? 1.0 : targets.weights[r];
  }
  return weight;
}

}  // namespace recurve
