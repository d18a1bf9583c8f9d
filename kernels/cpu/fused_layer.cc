#include "kernels/cpu/fused_layer.h"

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "hwy/aligned_allocator.h"
#include "kernels/cpu/packed_product.h"
#include "kernels/cpu/parallel.h"

namespace recurve::cpu {
namespace {

using Recur =
    absl::FunctionRef<void(const SequenceBlock&, const GateRows&, float*)>;

struct Scratch {
  float* tile = nullptr;   // [kTileRows, kMaxGroupColumns]
  float* bias = nullptr;   // [kMaxGroupColumns]
  float* state = nullptr;  // [kMaxGroupColumns]
};

Scratch ThreadScratch() {
  thread_local const hwy::AlignedFreeUniquePtr<float[]> memory =
      hwy::AllocateAligned<float>(kFusedScratchBytes / sizeof(float));
  float* const tile = memory.get();
  float* const bias = tile + kTileRows * kMaxGroupColumns;
  return {tile, bias, bias + kMaxGroupColumns};
}

// Consecutive sequences.
struct SequenceRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// One group of channels through a range of sequences.
class GroupWalk {
 public:
  GroupWalk(const FusedLayer& layer, const ChannelGroup& group,
            const PackedColumns& columns, SequenceRange sequences, Recur recur)
      : layer_(layer),
        group_(group),
        columns_(columns),
        sequences_(sequences),
        scratch_(ThreadScratch()),
        recur_(recur) {
    block_.direction = group.direction;
    block_.unit = group.unit;
    block_.channel =
        group.direction * layer.projection.hidden_size + group.unit;
    block_.count = group.count;
    if (layer.bias != nullptr) GatherBias();
  }

  void Run() {
    PassStatesThrough();
    Start(block_.reversed() ? sequences_.end - 1 : sequences_.begin);
    const int64_t begin = layer_.layout.cu_seqlens[sequences_.begin];
    const int64_t end = layer_.layout.cu_seqlens[sequences_.end];
    for (int64_t done = 0; done < end - begin; done += kTileRows) {
      const int64_t rows = std::min(kTileRows, end - begin - done);
      Tile(block_.reversed() ? end - done - rows : begin + done, rows);
    }
  }

 private:
  int64_t Rows(int64_t sequence) const {
    const int64_t* const begin = layer_.layout.cu_seqlens + sequence;
    return begin[1] - begin[0];
  }

  void GatherBias() {
    const int64_t hidden = layer_.projection.hidden_size;
    const int64_t gates = layer_.projection.gate_groups;
    for (int64_t m = 0; m < gates; ++m) {
      std::copy_n(
          layer_.bias + (group_.direction * gates + m) * hidden + group_.unit,
          group_.count, scratch_.bias + m * group_.count);
    }
  }

  // Of the sequences without rows, which no tile has.
  void PassStatesThrough() {
    for (int64_t b = sequences_.begin; b < sequences_.end; ++b) {
      if (Rows(b) > 0) continue;
      block_.sequence = b;
      LoadState(layer_.c_first, block_, scratch_.state);
      StoreState(scratch_.state, block_, layer_.c_last);
    }
  }

  // The walk goes on with `sequence`, or with the next that has rows.
  void Start(int64_t sequence) {
    const int64_t step = block_.reversed() ? -1 : 1;
    while (sequences_.begin <= sequence && sequence < sequences_.end &&
           Rows(sequence) == 0) {
      sequence += step;
    }
    if (sequence < sequences_.begin || sequence >= sequences_.end) return;
    block_.sequence = sequence;
    left_ = Rows(sequence);
    LoadState(layer_.c_first, block_, scratch_.state);
  }

  void Tile(int64_t first, int64_t rows) {
    const Matrix<float> u = {scratch_.tile, rows, columns_.cols};
    const Matrix<const float> x =
        layer_.input.row_range(first, rows)
            .columns(group_.direction * layer_.input_stride,
                     layer_.projection.depth);
    MultiplyPacked(x, columns_,
                   layer_.bias == nullptr ? nullptr : scratch_.bias, u);
    for (int64_t done = 0; done < rows;) {
      const int64_t count = std::min(left_, rows - done);
      const int64_t row = block_.reversed() ? rows - done - count : done;
      block_.begin_row = first + row;
      block_.end_row = block_.begin_row + count;
      recur_(block_, {u.row(row), u.stride, group_.count}, scratch_.state);
      done += count;
      Advance(count);
    }
  }

  void Advance(int64_t rows) {
    left_ -= rows;
    if (left_ > 0) return;
    StoreState(scratch_.state, block_, layer_.c_last);
    Start(block_.sequence + (block_.reversed() ? -1 : 1));
  }

  const FusedLayer& layer_;
  const ChannelGroup group_;
  const PackedColumns columns_;
  const SequenceRange sequences_;
  const Scratch scratch_;
  const Recur recur_;
  SequenceBlock block_;  // where the walk is
  int64_t left_ = 0;     // rows of the block's sequence that are to come
};

// Parts of the batch: as many as the team needs to end together, and as keep a
// part's input in the second-level cache while all groups pass it by.
int64_t ChooseParts(const FusedLayer& layer, int64_t groups) {
  constexpr int64_t kPartBytes = 768 << 10;
  // Each part reads the weights once more.
  constexpr int64_t kMinPartRows = 2 * kTileRows;
  const int64_t threads = omp_get_max_threads();
  const int64_t wanted = threads == 1 ? 1 : (4 * threads + groups - 1) / groups;
  const int64_t rows = layer.layout.num_rows;
  const int64_t row_bytes = layer.projection.depth * int64_t{sizeof(float)};
  const int64_t parts = std::max(wanted, rows * row_bytes / kPartBytes);
  const int64_t most =
      std::min(layer.layout.num_sequences, rows / kMinPartRows);
  return std::clamp<int64_t>(parts, 1, std::max<int64_t>(most, 1));
}

// Part `part` of `parts`, cut by rows.
SequenceRange Part(const SequenceLayout& layout, int64_t part, int64_t parts) {
  const int64_t* const cu = layout.cu_seqlens;
  const auto begin = [&](int64_t p) {
    if (p == 0) return int64_t{0};
    if (p == parts) return layout.num_sequences;
    return std::lower_bound(cu, cu + layout.num_sequences,
                            layout.num_rows * p / parts) -
           cu;
  };
  return {begin(part), begin(part + 1)};
}

}  // namespace

void RunFused(const FusedLayer& layer, Recur recur) {
  if (layer.layout.num_sequences == 0) return;
  const ChannelGroups groups(layer.projection, layer.packed.precision);
  const int64_t parts = ChooseParts(layer, groups.count());
  const int64_t columns = layer.projection.num_directions *
                          layer.projection.gate_groups *
                          layer.projection.hidden_size;
  const int64_t elements =
      (layer.layout.num_rows * layer.projection.depth / 16 + 1) * columns;
  ParallelFor(groups.count() * parts, elements, [&](int64_t index) {
    const int64_t group = index % groups.count();
    GroupWalk(layer, groups.group(group),
              groups.Columns(layer.packed.data, group),
              Part(layer.layout, index / groups.count(), parts), recur)
        .Run();
  });
}

void ReserveFusedScratch() { ThreadScratch(); }

}  // namespace recurve::cpu
