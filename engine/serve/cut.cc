#include "engine/serve/cut.h"

#include <algorithm>
#include <utility>

namespace recurve {
namespace {

// Rows [begin, end) of one sequence, as calls of `call_rows` rows, each cut
// into passes of at most `max_rows`.
Chain CutInTime(int64_t sequence, int64_t begin, int64_t end,
                const CutOptions& options) {
  const int64_t call_rows =
      options.call_rows > 0 ? options.call_rows : end - begin;
  Chain chain;
  for (int64_t call = begin; call < end; call += call_rows) {
    const int64_t call_end = std::min(call + call_rows, end);
    for (int64_t row = call; row < call_end; row += options.max_rows) {
      const int64_t rows = std::min(options.max_rows, call_end - row);
      chain.push_back({sequence, 1, row, rows, row == call});
    }
  }
  return chain;
}

}  // namespace

std::vector<Chain> CutBatch(absl::Span<const int64_t> cu_seqlens,
                            const CutOptions& options) {
  const int64_t uncut_rows = options.call_rows > 0
                                 ? std::min(options.call_rows, options.max_rows)
                                 : options.max_rows;
  std::vector<Chain> chains;
  Chunk open;  // whole sequences gathered so far
  const auto close = [&] {
    if (open.num_sequences > 0) chains.push_back({open});
    open = {};
  };
  for (size_t b = 0; b + 1 < cu_seqlens.size(); ++b) {
    const int64_t begin = cu_seqlens[b], rows = cu_seqlens[b + 1] - begin;
    if (rows > uncut_rows && options.in_time) {
      close();
      chains.push_back(
          CutInTime(static_cast<int64_t>(b), begin, begin + rows, options));
      continue;
    }
    if (open.num_rows + rows > options.max_rows) close();
    if (open.num_sequences == 0) {
      open.first_sequence = static_cast<int64_t>(b);
      open.first_row = begin;
    }
    ++open.num_sequences;
    open.num_rows += rows;
  }
  close();
  return chains;
}

}  // namespace recurve
