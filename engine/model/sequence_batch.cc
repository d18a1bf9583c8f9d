#include "engine/model/sequence_batch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace recurve {

absl::Status CheckOffsets(const SequenceBatch& batch,
                          bool allow_empty_sequences) {
  const std::vector<int64_t>& offsets = batch.cu_seqlens;
  if (offsets.size() < 2) {
    return absl::InvalidArgumentError("cu_seqlens: the batch has no sequences");
  }
  if (offsets[0] != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cu_seqlens[0]: ", offsets[0], " is not 0"));
  }
  for (size_t b = 1; b < offsets.size(); ++b) {
    if (offsets[b] < offsets[b - 1]) {
      return absl::InvalidArgumentError(
          absl::StrCat("cu_seqlens[", b, "]: ", offsets[b],
                       " is below the offset before, ", offsets[b - 1]));
    }
    if (offsets[b] == offsets[b - 1] && !allow_empty_sequences) {
      return absl::InvalidArgumentError(
          absl::StrCat("cu_seqlens[", b, "]: sequence ", b - 1, " is empty"));
    }
  }
  return absl::OkStatus();
}

std::string RowPlace(const SequenceBatch& batch, int64_t row) {
  const auto end =
      std::upper_bound(batch.cu_seqlens.begin(), batch.cu_seqlens.end(), row);
  const int64_t sequence = end - batch.cu_seqlens.begin() - 1;
  return absl::StrCat("sequence ", sequence, ", step ",
                      row - batch.cu_seqlens[sequence]);
}

}  // namespace recurve
