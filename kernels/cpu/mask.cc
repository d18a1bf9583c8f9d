#include "kernels/cpu/mask.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "kernels/args_check.h"
#include "kernels/cpu/parallel.h"
#include "kernels/mask_stream.h"
#include "kernels/random.h"
#include "kernels/status.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/mask.cc"
#include "hwy/foreach_target.h"  // must come before highway.h
// clang-format would move this one above it.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace recurve::cpu {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR  // has no operation on pairs of lanes

void FillMaskRow(const MaskStream& stream, uint64_t position, uint64_t sequence,
                 float* out, int64_t channels) {
  for (int64_t channel = 0; channel < channels; ++channel) {
    const RandomBlock block = Philox(
        {static_cast<uint32_t>(channel / kChannelsPerCounter),
         static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32),
         static_cast<uint32_t>(sequence)},
        {stream.round_keys[0][0], stream.round_keys[0][1]});
    const int32_t number =
        static_cast<int32_t>(block[channel % kChannelsPerCounter] >> 8);
    out[channel] = number < stream.threshold ? stream.scale : 0.0f;
  }
}

#else

namespace hn = hwy::HWY_NAMESPACE;

using D64 = hn::ScalableTag<uint64_t>;
using D32 = hn::Repartition<uint32_t, D64>;
using V64 = hn::Vec<D64>;

// One counter a 64-bit lane, one word of it a vector, in the lane's lower half:
// there the multiplication wants it, and leaves the product's lower word. The
// upper halves hold rubbish.
struct Words {
  V64 x0, x1, x2, x3;
};

HWY_INLINE V64 MultiplyLow(V64 x, uint32_t multiplier) {
  const D32 d;
  return hn::MulEven(hn::BitCast(d, x), hn::Set(d, multiplier));
}

// Brings the upper words down. A shift does too, but competes with the
// multiplications for an execution port.
HWY_INLINE V64 UpperWords(V64 x) {
  return hn::BitCast(D64(), hn::DupOdd(hn::BitCast(D32(), x)));
}

HWY_INLINE void Round(const uint32_t (&key)[2], Words& w) {
  const D64 d;
  const V64 p0 = MultiplyLow(w.x0, kPhiloxMultipliers[0]);
  const V64 p1 = MultiplyLow(w.x2, kPhiloxMultipliers[1]);
  w.x0 = hn::Xor3(UpperWords(p1), w.x1, hn::Set(d, key[0]));
  w.x2 = hn::Xor3(UpperWords(p0), w.x3, hn::Set(d, key[1]));
  w.x1 = p1;
  w.x3 = p0;
}

// The decisions on two neighbouring channels of each lane's counter.
HWY_INLINE V64 Decide(const MaskStream& stream, V64 even, V64 odd) {
  const D32 d;
  const hn::RebindToSigned<D32> di;
  const hn::RebindToFloat<D32> df;
  const auto bits =
      hn::OddEven(hn::DupEven(hn::BitCast(d, odd)), hn::BitCast(d, even));
  const auto number = hn::BitCast(di, hn::ShiftRight<8>(bits));
  const auto keep =
      hn::RebindMask(df, hn::Lt(number, hn::Set(di, stream.threshold)));
  return hn::BitCast(D64(),
                     hn::IfThenElseZero(keep, hn::Set(df, stream.scale)));
}

// Channels that FillBlocks decides at once.
inline constexpr int64_t kStep = kChannelsPerCounter * hn::MaxLanes(D64());

// The mask of kStep channels from the first one of `block` on.
HWY_INLINE void FillBlocks(const MaskStream& stream, uint64_t block,
                           uint64_t position, uint64_t sequence,
                           uint64_t* HWY_RESTRICT out) {
  const D64 d;
  Words w = {hn::Iota(d, block), hn::Set(d, position),
             hn::Set(d, position >> 32), hn::Set(d, sequence)};
  for (const auto& key : stream.round_keys) Round(key, w);
  hn::StoreInterleaved2(Decide(stream, w.x0, w.x1), Decide(stream, w.x2, w.x3),
                        d, out);
}

void FillMaskRow(const MaskStream& stream, uint64_t position, uint64_t sequence,
                 float* out, int64_t channels) {
  HWY_ALIGN uint64_t decided[kStep / 2];  // pairs of floats
  int64_t channel = 0;
  for (; channel + kStep <= channels; channel += kStep) {
    FillBlocks(stream, channel / kChannelsPerCounter, position, sequence,
               decided);
    std::memcpy(out + channel, decided, kStep * sizeof(float));
  }
  if (channel == channels) return;
  FillBlocks(stream, channel / kChannelsPerCounter, position, sequence,
             decided);
  std::memcpy(out + channel, decided, (channels - channel) * sizeof(float));
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace recurve::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace recurve::cpu {

HWY_EXPORT(FillMaskRow);

namespace {

void FillVariational(const MaskArgs& args, const MaskStream& stream) {
  const auto fill_row = HWY_DYNAMIC_DISPATCH(FillMaskRow);
  ParallelFor(args.mask.rows, args.mask.rows * args.mask.cols, [&](int64_t b) {
    fill_row(stream, /*position=*/0, args.first_sequence + b, args.mask.row(b),
             args.mask.cols);
  });
}

// Rows [begin, end) of a mask with a row for each row of the batch.
void FillRows(const MaskArgs& args, const MaskStream& stream, int64_t begin,
              int64_t end) {
  const auto fill_row = HWY_DYNAMIC_DISPATCH(FillMaskRow);
  const int64_t* ends = args.layout.cu_seqlens + 1;
  // The sequence that owns row `begin`: the first that ends after it.
  int64_t b =
      std::upper_bound(ends, ends + args.layout.num_sequences, begin) - ends;
  for (int64_t row = begin; row < end; ++row) {
    while (row >= ends[b]) ++b;
    const int64_t first = args.positions == nullptr ? 0 : args.positions[b];
    fill_row(stream, first + row - args.layout.cu_seqlens[b],
             args.first_sequence + b, args.mask.row(row), args.mask.cols);
  }
}

}  // namespace

absl::Status FillMask(const MaskArgs& args) {
  RETURN_IF_ERROR(CheckMask(args));
  const MaskStream stream = MaskStreamOf(args);
  if (args.variational) {
    FillVariational(args, stream);
    return absl::OkStatus();
  }
  const int64_t rows = args.mask.rows;
  constexpr int64_t kRowsPerPiece = 16;
  ParallelFor((rows + kRowsPerPiece - 1) / kRowsPerPiece, rows * args.mask.cols,
              [&](int64_t piece) {
                const int64_t begin = piece * kRowsPerPiece;
                FillRows(args, stream, begin,
                         std::min(rows, begin + kRowsPerPiece));
              });
  return absl::OkStatus();
}

}  // namespace recurve::cpu
#endif  // HWY_ONCE
