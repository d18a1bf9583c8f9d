#include <cstdint>

#include "kernels/cuda/embedding.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/storage.cuh"

namespace recurve::cuda {
namespace {

template <typename S, bool kAligned>
__global__ void __launch_bounds__(kBlockThreads)
    EmbeddingForwardKernel(const EmbeddingForwardArgs<S> p) {
  const int64_t cols = p.y.cols;
  for (int64_t n = FirstRow(); n < p.y.rows; n += RowStep()) {
    const S* from = p.table.row(p.tokens[n]);
    ForEachPart<S>(cols, [&](int64_t j) {
      float values[kWideVec<S>];
      LoadPart<kAligned>(from + j, cols - j, 0.0f, values);
      StorePart<kAligned>(values, cols - j, p.y.row(n) + j);
    });
  }
}

// The backward pass. A block owns kTableRows rows of the table and as many
// columns as a warp moves at once, and looks through all tokens, a tile at a
// time: its hits go to a list in shared memory, in ascending order, and are
// added to sums there. A sum belongs to one warp, which adds without waiting
// for others. Every sum is written once, zeros too.
//
// Reads: dy once (N * E); the tokens once for each block, from the L2 cache:
// 4 N * (V / kTableRows) * (E / 128) bytes in float. At V = 50000, E = 512,
// N = 16384 that is 205 MB, some 60 us, beside the 134 MB that dy and dtable
// take through memory. A token of many rows is one warp's work, eight rows in
// flight: where the table is small and so every token frequent, kTableRows is 1
// and the hits are dealt to all warps, whose sums are added in order.

// All sums of a block: 32 KiB.
constexpr int kSumElements = 8192;
template <typename S>
constexpr int kScatterColumns = kWarpLanes* kWideVec<S>;
template <typename S>
constexpr int kManyRows = kSumElements / kScatterColumns<S>;

constexpr int kTokensPerThread = 4;
constexpr int kTileTokens = kBlockThreads * kTokensPerThread;
constexpr int kRowsInFlight = 8;

template <typename S>
struct ScatterParameters {
  const int32_t* tokens;
  Matrix<const S> dy;
  Matrix<float> dtable;
  bool accumulate;
};

// Rows of a tile whose token this block owns, ascending. kTableRows > 1: and
// which of its rows.
struct Hits {
  uint16_t* row;   // [kTileTokens], counted from the tile's first
  uint16_t* slot;  // [kTileTokens], whose sum it goes to
  int count;
};

// Lists the hits of the tile that starts at row `first`. The whole block calls.
// A list is not written before all threads have come, done with the one before.
template <int kTableRows, typename S>
__device__ inline void FindHits(const ScatterParameters<S>& p, int64_t first,
                                int64_t first_token, Hits& hits) {
  RECURVE_SHARED(int, of_warp, kBlockWarps);
  // A warp looks at kTokensPerThread * 32 neighbouring tokens.
  const int begin = WarpOfBlock() * kTokensPerThread * kWarpLanes + Lane();
  unsigned found[kTokensPerThread];
  int slots[kTokensPerThread];
  int count = 0;
#pragma unroll
  for (int k = 0; k < kTokensPerThread; ++k) {
    const int64_t n = first + begin + k * kWarpLanes;
    const int64_t offset =
        n < p.dy.rows ? p.tokens[n] - first_token : int64_t{-1};
    slots[k] = static_cast<int>(offset);
    found[k] = __ballot_sync(kAllLanes, offset >= 0 && offset < kTableRows);
    count += __popc(found[k]);
  }
  if (Lane() == 0) of_warp[WarpOfBlock()] = count;
  __syncthreads();
  int position = 0;
  hits.count = 0;
#pragma unroll
  for (int w = 0; w < kBlockWarps; ++w) {
    if (w < WarpOfBlock()) position += of_warp[w];
    hits.count += of_warp[w];
  }
#pragma unroll
  for (int k = 0; k < kTokensPerThread; ++k) {
    if (found[k] >> Lane() & 1) {
      const int i = position + __popc(found[k] & ((1u << Lane()) - 1));
      hits.row[i] = static_cast<uint16_t>(begin + k * kWarpLanes);
      hits.slot[i] =
          static_cast<uint16_t>(kTableRows == 1 ? i % kBlockWarps : slots[k]);
    }
    position += __popc(found[k]);
  }
  __syncthreads();
}

// This lane's part of a row of dy, not yet converted: registers are short.
template <bool kAligned, typename S>
__device__ inline Pack<S, kWideVec<S>> LoadPack(const S* from, int64_t left) {
  if (kAligned && left >= kWideVec<S>) return Pack<S, kWideVec<S>>::Load(from);
  auto pack = Pack<S, kWideVec<S>>::Zeros();
#pragma unroll
  for (int i = 0; i < kWideVec<S>; ++i) {
    pack.Set(i, i < left ? ToFloat(from[i]) : 0.0f);
  }
  return pack;
}

// Adds this lane's part of a few rows of dy to the sums: first all loads.
template <bool kAligned, typename S>
__device__ inline void AddRows(const S* dy, int64_t stride, int64_t left,
                               const int (&rows)[kRowsInFlight],
                               const int (&slots)[kRowsInFlight], int count,
                               float* sums) {
  constexpr int kPart = kWideVec<S>;
  Pack<S, kPart> packs[kRowsInFlight];
#pragma unroll
  for (int k = 0; k < kRowsInFlight; ++k) {
    if (k < count) packs[k] = LoadPack<kAligned>(dy + rows[k] * stride, left);
  }
#pragma unroll
  for (int k = 0; k < kRowsInFlight; ++k) {
    if (k >= count) break;
    float* sum = sums + slots[k] * kScatterColumns<S> + Lane() * kPart;
#pragma unroll
    for (int i = 0; i < kPart; ++i) sum[i] += packs[k].Get(i);
  }
}

// Adds the hits of this warp: those whose slot is its own.
template <bool kAligned, typename S>
__device__ inline void AddHits(const Hits& hits, const S* dy, int64_t stride,
                               int64_t left, float* sums) {
  int rows[kRowsInFlight], slots[kRowsInFlight];
  int waiting = 0;
  for (int first = 0; first < hits.count; first += kWarpLanes) {
    const int mine = first + Lane();
    unsigned own = __ballot_sync(
        kAllLanes,
        mine < hits.count && hits.slot[mine] % kBlockWarps == WarpOfBlock());
    while (own != 0) {
      // Constant indices keep the arrays in registers.
#pragma unroll
      for (int k = 0; k < kRowsInFlight; ++k) {
        if (k == waiting && own != 0) {
          const int i = first + __ffs(static_cast<int>(own)) - 1;
          own &= own - 1;
          rows[k] = hits.row[i];
          slots[k] = hits.slot[i];
          ++waiting;
        }
      }
      if (waiting == kRowsInFlight) {
        AddRows<kAligned>(dy, stride, left, rows, slots, waiting, sums);
        waiting = 0;
      }
    }
  }
  AddRows<kAligned>(dy, stride, left, rows, slots, waiting, sums);
}

template <typename S, int kTableRows, bool kAligned>
__global__ void __launch_bounds__(kBlockThreads)
    EmbeddingBackwardKernel(const ScatterParameters<S> p) {
  constexpr int kPart = kWideVec<S>;
  constexpr int kSlots = kTableRows == 1 ? kBlockWarps : kTableRows;
  RECURVE_SHARED(float, sums, kSlots* kScatterColumns<S>);
  RECURVE_SHARED(uint16_t, hit_rows, kTileTokens);
  RECURVE_SHARED(uint16_t, hit_slots, kTileTokens);
  Hits hits = {hit_rows, hit_slots, 0};

  const int64_t first_token = static_cast<int64_t>(blockIdx.x) * kTableRows;
  const int64_t column =
      static_cast<int64_t>(blockIdx.y) * kScatterColumns<S> + Lane() * kPart;
  const int64_t left = p.dy.cols - column;  // may be none: <= 0

  // Of the table's row of a slot: where its sum begins.
  const auto load = [&](int64_t v, float(&values)[kPart]) {
    const bool held = p.accumulate && v < p.dtable.rows;
    LoadPart<kAligned>(p.dtable.row(v) + column, held ? left : 0, 0.0f, values);
  };
  for (int s = WarpOfBlock(); s < kSlots; s += kBlockWarps) {
    float values[kPart] = {};
    if (kTableRows > 1) load(first_token + s, values);
#pragma unroll
    for (int i = 0; i < kPart; ++i) {
      sums[s * kScatterColumns<S> + Lane() * kPart + i] = values[i];
    }
  }
  for (int64_t first = 0; first < p.dy.rows; first += kTileTokens) {
    FindHits<kTableRows>(p, first, first_token, hits);
    AddHits<kAligned>(hits, p.dy.row(first) + column, p.dy.stride, left, sums);
  }
  __syncthreads();  // before other warps' sums are read
  for (int s = WarpOfBlock(); s < kTableRows; s += kBlockWarps) {
    const int64_t v = first_token + s;
    if (v >= p.dtable.rows) break;
    float totals[kPart];
    if (kTableRows == 1) load(v, totals);
#pragma unroll
    for (int i = 0; i < kPart; ++i) {
      const float* sum = sums + s * kScatterColumns<S> + Lane() * kPart + i;
      if (kTableRows > 1) {
        totals[i] = *sum;
      } else {
        for (int w = 0; w < kSlots; ++w) {
          totals[i] += sum[w * kScatterColumns<S>];
        }
      }
    }
    StorePart<kAligned>(totals, left, p.dtable.row(v) + column);
  }
}

}  // namespace

// --- Launchers ---

namespace {

template <typename S, int kTableRows>
cudaError_t LaunchScatter(const ScatterParameters<S>& p, cudaStream_t stream) {
  const dim3 grid(
      static_cast<unsigned>(CeilDivide(p.dtable.rows, kTableRows)),
      static_cast<unsigned>(CeilDivide(p.dtable.cols, kScatterColumns<S>)));
  if (IsWide(p.dy) && IsWide(p.dtable)) {
    return Launch<EmbeddingBackwardKernel<S, kTableRows, true>>(
        grid, kBlockThreads, stream, p);
  }
  return Launch<EmbeddingBackwardKernel<S, kTableRows, false>>(
      grid, kBlockThreads, stream, p);
}

}  // namespace

template <typename S>
cudaError_t EmbeddingForward(const EmbeddingForwardArgs<S>& args,
                             cudaStream_t stream) {
  return LaunchRows<EmbeddingForwardKernel<S, true>,
                    EmbeddingForwardKernel<S, false>>(
      IsWide(args.table) && IsWide(args.y), args.y.rows, stream, args);
}

template <typename S>
cudaError_t EmbeddingBackward(const EmbeddingBackwardArgs<S>& args,
                              cudaStream_t stream) {
  const ScatterParameters<S> p = {args.tokens, args.dy, args.dtable,
                                  args.accumulate};
  return p.dtable.rows > kSplitTableRows
             ? LaunchScatter<S, kManyRows<S>>(p, stream)
             : LaunchScatter<S, 1>(p, stream);
}

#define RECURVE_INSTANTIATE(S)                                            \
  template cudaError_t EmbeddingForward(const EmbeddingForwardArgs<S>&,   \
                                        cudaStream_t);                    \
  template cudaError_t EmbeddingBackward(const EmbeddingBackwardArgs<S>&, \
                                         cudaStream_t)
RECURVE_INSTANTIATE(float);
RECURVE_INSTANTIATE(BFloat16);
RECURVE_INSTANTIATE(Float16);
#undef RECURVE_INSTANTIATE

}  // namespace recurve::cuda
