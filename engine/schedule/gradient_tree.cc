#include "engine/schedule/gradient_tree.h"

#include <algorithm>
#include <cassert>

namespace recurve {

bool TreeFold::TopTwoAreHalves() const {
  if (stack_.size() < 2) return false;
  const Range left = stack_[stack_.size() - 2], right = stack_.back();
  // A left half with something on its right is whole: 2^l leaves.
  const int64_t half = left.size();
  return left.begin % (2 * half) == 0 &&
         right.end == std::min(left.end + half, num_leaves_);
}

int TreeFold::Push(Range node) {
  assert(!node.empty() && node.end <= num_leaves_);
  assert(stack_.empty() || stack_.back().end == node.begin);
  stack_.push_back(node);
  int additions = 0;
  for (; TopTwoAreHalves(); ++additions) {
    const int64_t end = stack_.back().end;
    stack_.pop_back();
    stack_.back().end = end;
  }
  return additions;
}

std::vector<Range> MaximalSubtrees(int64_t num_leaves, Range leaves) {
  TreeFold fold(num_leaves);
  for (int64_t i = leaves.begin; i < leaves.end; ++i) fold.Push({i, i + 1});
  return {fold.stack().begin(), fold.stack().end()};
}

int64_t LivePartials(int64_t num_leaves, Range leaves) {
  TreeFold fold(num_leaves);
  int64_t most = 0;
  for (int64_t i = leaves.begin; i < leaves.end; ++i) {
    most = std::max(most, static_cast<int64_t>(fold.stack().size()) + 1);
    fold.Push({i, i + 1});
  }
  return most;
}

namespace {

// floor(log2(x)), x > 0.
int64_t Log2(int64_t x) {
  int64_t log = 0;
  while (x >>= 1) ++log;
  return log;
}

// Most maximal nodes of [0, n') for any n' <= n: one for each bit of n' that is
// set.
int64_t MostNodesFromTheLeft(int64_t n) { return Log2(n + 1); }

}  // namespace

int64_t MaxLivePartials(int64_t num_micro_batches, int num_devices) {
  // Before the last leaf is folded the range holds some of the n leaves left of
  // it, whose maximal nodes rise in size up to a place 2^k, and fall after it.
  const int64_t n = std::max<int64_t>(num_micro_batches - 1, 0);
  int64_t nodes = MostNodesFromTheLeft(n);
  if (num_devices == 1) return nodes + 1;
  for (int64_t k = 0; (int64_t{1} << k) <= n; ++k) {
    const int64_t place = int64_t{1} << k;
    const int64_t right = std::min(n - place, place - 1);
    nodes = std::max(nodes, k + MostNodesFromTheLeft(right));
  }
  return nodes + 1;
}

int64_t MaxLivePartials(int64_t num_micro_batches) {
  return MaxLivePartials(num_micro_batches, /*num_devices=*/2);
}

}  // namespace recurve
