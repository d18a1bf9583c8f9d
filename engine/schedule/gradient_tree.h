// The order in which gradients of micro-batches are added: a binary tree over
// micro-batch index that depends on their number alone (DESIGN invariant 3,
// docs/determinism.md).
//
// A node of level l covers leaves [k 2^l, (k + 1) 2^l), cut off at num_leaves;
// its sum is that of its left half plus that of its right half, or that of its
// left half where nothing stands on the right:
//
//   6 leaves: ((0 + 1) + (2 + 3)) + (4 + 5)
//
// A range of leaves holds O(log num_leaves) maximal nodes. TreeFold walks
// leaves, or nodes, from left to right and adds two sums as soon as they are
// the halves of a node; what is left on its stack in the end are the maximal
// nodes of what it has walked over. Because two sums are only ever added as
// halves of a node, it does not matter who adds them, nor when.
#ifndef RECURVE_ENGINE_SCHEDULE_GRADIENT_TREE_H_
#define RECURVE_ENGINE_SCHEDULE_GRADIENT_TREE_H_

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "engine/schedule/partition.h"

namespace recurve {

class TreeFold {
 public:
  explicit TreeFold(int64_t num_leaves) : num_leaves_(num_leaves) {}

  // Puts the sum over the leaves of `node` on the stack. Returns how many
  // additions follow, each adding the top of the stack to the sum below it and
  // taking it off. REQUIRES: node is a node of the tree, right of all before.
  int Push(Range node);

  // The nodes on the stack, bottom first.
  absl::Span<const Range> stack() const { return stack_; }

 private:
  bool TopTwoAreHalves() const;

  int64_t num_leaves_;
  absl::InlinedVector<Range, 32> stack_;  // enough for 2^15 leaves
};

// The maximal nodes of the tree that lie within `leaves`, left to right.
std::vector<Range> MaximalSubtrees(int64_t num_leaves, Range leaves);

// The most sums that are alive at once while the leaves of this range are
// folded one by one, the newest leaf included.
int64_t LivePartials(int64_t num_leaves, Range leaves);

// The most that LivePartials is for any range of these leaves: what a device
// needs room for whatever its share of a call is. At least 1.
int64_t MaxLivePartials(int64_t num_micro_batches);
// The same where the number of devices is known: a lone device begins at leaf
// 0 and needs about half.
int64_t MaxLivePartials(int64_t num_micro_batches, int num_devices);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SCHEDULE_GRADIENT_TREE_H_
