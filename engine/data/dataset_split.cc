#include "engine/data/dataset_split.h"

#include <variant>
#include <vector>

namespace recurve {
namespace {

// Moves what comes after the first `keep` elements; nothing where the list is
// absent.
template <typename T>
std::vector<T> CutAfter(int64_t keep, std::vector<T>* values) {
  if (values->empty()) return {};
  std::vector<T> end(values->begin() + keep, values->end());
  values->resize(keep);
  return end;
}

SequenceDataset CutSequences(int64_t count, SequenceDataset* data) {
  std::vector<int64_t>& offsets = data->sequences.cu_seqlens;
  const int64_t sequences = data->sequences.num_sequences() - count;
  const int64_t rows = offsets[sequences];
  const int64_t targets = data->per_step ? rows : sequences;
  SequenceDataset end;
  end.feature_size = data->feature_size;
  end.per_step = data->per_step;
  end.target_size = data->target_size;
  end.next_token = data->next_token;

  end.sequences.tokens = CutAfter(rows, &data->sequences.tokens);
  end.sequences.features =
      CutAfter(rows * data->feature_size, &data->sequences.features);
  end.targets.classes = CutAfter(targets, &data->targets.classes);
  end.targets.values =
      CutAfter(targets * data->target_size, &data->targets.values);
  end.targets.weights = CutAfter(targets, &data->targets.weights);
  end.sequences.cu_seqlens.assign(offsets.begin() + sequences, offsets.end());
  for (int64_t& offset : end.sequences.cu_seqlens) offset -= rows;
  offsets.resize(sequences + 1);
  return end;
}

}  // namespace

int64_t DatasetSize(const Dataset& dataset) {
  if (const auto* text = std::get_if<TextDataset>(&dataset)) {
    return static_cast<int64_t>(text->tokens.size());
  }
  return std::get<SequenceDataset>(dataset).sequences.num_sequences();
}

Dataset CutEnd(int64_t count, Dataset* dataset) {
  if (auto* text = std::get_if<TextDataset>(dataset)) {
    return TextDataset{CutAfter(DatasetSize(*dataset) - count, &text->tokens)};
  }
  return CutSequences(count, &std::get<SequenceDataset>(*dataset));
}

}  // namespace recurve
