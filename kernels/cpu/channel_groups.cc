#include "kernels/cpu/channel_groups.h"

#include <algorithm>
#include <array>

#include "absl/types/span.h"
#include "kernels/cpu/gemm_tile.h"

namespace recurve::cpu {
namespace {

// What of a second-level cache of 2 MiB a group takes; rows and results need
// the rest.
constexpr int64_t kGroupBytes = 800 << 10;
// Most gate groups of any layer.
constexpr int64_t kMaxGateGroups = 6;
// Channels of a group are whole cache lines, and fill whole panels of packed
// columns where they can.
constexpr int64_t kLine = 16;

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t RoundUp(int64_t a, int64_t b) { return DivideUp(a, b) * b; }

// Few enough for a team to share the groups of a layer, enough for the rows of
// a tile, which are read and, if need be, rounded again for each, to cost
// little beside the product.
int64_t MaxColumns(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      return kMaxGroupColumns / 4;
    case Precision::kBfloat16:
      return kMaxGroupColumns / 2;
    case Precision::kInt8:
      return kMaxGroupColumns;
  }
  return kMaxGroupColumns;
}

int64_t ChannelUnit(int64_t gate_groups) {
  return gate_groups % 3 == 0 ? kLine : kColumnUnit;
}

// As many channels as a group may have, then as many groups as that takes, all
// about equal.
int64_t GroupChannels(const ProjectionShape& projection, Precision precision) {
  const int64_t unit = ChannelUnit(projection.gate_groups);
  const int64_t column_bytes =
      PackedBytes(precision, projection.depth, kColumnUnit) / kColumnUnit;
  const int64_t columns =
      std::min(MaxColumns(precision), kGroupBytes / column_bytes);
  const int64_t most = columns / projection.gate_groups / unit * unit;
  const int64_t groups = DivideUp(projection.hidden_size, std::max(most, unit));
  return RoundUp(DivideUp(projection.hidden_size, groups), unit);
}

}  // namespace

ChannelGroups::ChannelGroups(const ProjectionShape& projection,
                             Precision precision)
    : projection_(projection), precision_(precision) {
  if (projection.hidden_size == 0) return;
  channels_ = GroupChannels(projection, precision);
  per_direction_ = DivideUp(projection.hidden_size, channels_);
}

ChannelGroup ChannelGroups::group(int64_t index) const {
  const int64_t unit = index % per_direction_ * channels_;
  return {index / per_direction_, unit,
          std::min(channels_, projection_.hidden_size - unit)};
}

int64_t ChannelGroups::GroupBytes(int64_t channels) const {
  return PackedBytes(precision_, projection_.depth,
                     projection_.gate_groups * channels);
}

int64_t ChannelGroups::Offset(int64_t index) const {
  const int64_t direction = index / per_direction_;
  const int64_t last =
      projection_.hidden_size - (per_direction_ - 1) * channels_;
  return direction * GroupBytes(last) +
         (index - direction) * GroupBytes(channels_);
}

int64_t ChannelGroups::packed_bytes() const {
  return count() == 0 ? 0 : Offset(count());
}

void ChannelGroups::Pack(Matrix<const float> weights, std::byte* to) const {
  const int64_t gates = projection_.gate_groups;
  for (int64_t index = 0; index < count(); ++index) {
    const ChannelGroup g = group(index);
    std::array<ColumnRange, kMaxGateGroups> ranges;
    for (int64_t m = 0; m < gates; ++m) {
      ranges[m] = {(g.direction * gates + m) * projection_.hidden_size + g.unit,
                   g.count};
    }
    cpu::Pack(precision_, weights, absl::MakeSpan(ranges.data(), gates),
              to + Offset(index));
  }
}

PackedColumns ChannelGroups::Columns(const std::byte* packed,
                                     int64_t index) const {
  return {precision_, projection_.depth,
          projection_.gate_groups * group(index).count, packed + Offset(index)};
}

}  // namespace recurve::cpu
