#include "engine/train/gradient_tree.h"

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
  return fold.stack();
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

}  // namespace recurve
