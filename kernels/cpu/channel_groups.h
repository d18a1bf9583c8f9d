// How a layer's projection is packed (packed_product.h): in groups of channels
// of one direction, all gates of a channel together, so that the product of a
// group and a few rows is all that these channels' recurrence needs.
#ifndef RECURVE_KERNELS_CPU_CHANNEL_GROUPS_H_
#define RECURVE_KERNELS_CPU_CHANNEL_GROUPS_H_

#include <cstddef>
#include <cstdint>

#include "kernels/cell_args.h"
#include "kernels/cpu/packed_product.h"
#include "kernels/precision.h"
#include "kernels/tensor.h"

namespace recurve::cpu {

// Most columns of a group: K times its channels.
inline constexpr int64_t kMaxGroupColumns = 768;

// Channels [unit, unit + count) of a direction.
struct ChannelGroup {
  int64_t direction = 0;
  int64_t unit = 0;
  int64_t count = 0;
};

// The groups of a projection: a pure function of its sizes and the precision.
class ChannelGroups {
 public:
  ChannelGroups(const ProjectionShape& projection, Precision precision);

  int64_t count() const { return projection_.num_directions * per_direction_; }
  ChannelGroup group(int64_t index) const;

  // Of all groups packed, one after the other.
  int64_t packed_bytes() const;
  // Packs weights [depth, D*K*H] to `to`, packed_bytes() of it.
  void Pack(Matrix<const float> weights, std::byte* to) const;
  // Group `index` of what Pack wrote to `packed`: column m * group.count + j is
  // gate m of channel group.unit + j.
  PackedColumns Columns(const std::byte* packed, int64_t index) const;

 private:
  int64_t GroupBytes(int64_t channels) const;
  int64_t Offset(int64_t index) const;

  const ProjectionShape projection_;
  const Precision precision_;
  int64_t channels_ = 0;       // of every group but a direction's last
  int64_t per_direction_ = 0;  // groups
};

}  // namespace recurve::cpu

#endif  // RECURVE_KERNELS_CPU_CHANNEL_GROUPS_H_
