#include "engine/schedule/gradient_tree.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {

void PrintTo(const Range& range, std::ostream* out) {
  *out << "[" << range.begin << ", " << range.end << ")";
}

namespace {

using ::testing::ElementsAre;

// Sums as text: what was added to what.
struct Text {
  std::string value;
  static Text Leaf(int64_t i) { return {std::to_string(i)}; }
  Text operator+(const Text& right) const {
    return {"(" + value + "+" + right.value + ")"};
  }
  bool operator==(const Text& other) const { return value == other.value; }
};

// The same, short: a hash that tells (a+b)+c from a+(b+c).
struct Digest {
  uint64_t value;
  static Digest Leaf(int64_t i) { return {static_cast<uint64_t>(i) + 1}; }
  Digest operator+(const Digest& right) const {
    uint64_t mixed =
        value * 0x9E3779B97F4A7C15u ^ (right.value + (value >> 29));
    mixed = (mixed ^ (mixed >> 31)) * 0xBF58476D1CE4E5B9u;
    return {mixed ^ (mixed >> 32)};
  }
  bool operator==(const Digest& other) const { return value == other.value; }
};

// The definition: the node of 2^level leaves from `begin` on, cut at `leaves`.
template <typename T>
T Definition(int64_t leaves, int64_t begin, int64_t width) {
  if (width == 1) return T::Leaf(begin);
  const int64_t half = width / 2;
  const T left = Definition<T>(leaves, begin, half);
  if (begin + half >= leaves) return left;
  return left + Definition<T>(leaves, begin + half, half);
}

template <typename T>
T Definition(int64_t leaves) {
  int64_t width = 1;
  while (width < leaves) width *= 2;
  return Definition<T>(leaves, 0, width);
}

// Folds `sums`, one for each of `nodes`, as a device does.
template <typename T>
std::vector<T> Fold(TreeFold& fold, const std::vector<Range>& nodes,
                    const std::vector<T>& sums) {
  std::vector<T> stack;
  for (size_t i = 0; i < nodes.size(); ++i) {
    stack.push_back(sums[i]);
    for (int additions = fold.Push(nodes[i]); additions > 0; --additions) {
      const T top = stack.back();
      stack.pop_back();
      stack.back() = stack.back() + top;
    }
  }
  return stack;
}

// All of a step: each device folds its leaves, then all sums are combined.
// Empty if something is left over.
template <typename T>
std::vector<T> Combine(int64_t leaves, const std::vector<Range>& devices) {
  std::vector<Range> subtrees;
  std::vector<T> sums;
  for (const Range range : devices) {
    std::vector<Range> nodes;
    std::vector<T> values;
    for (int64_t i = range.begin; i < range.end; ++i) {
      nodes.push_back({i, i + 1});
      values.push_back(T::Leaf(i));
    }
    TreeFold fold(leaves);
    const auto partials = Fold(fold, nodes, values);
    EXPECT_EQ(partials.size(), fold.stack().size());
    sums.insert(sums.end(), partials.begin(), partials.end());
    subtrees.insert(subtrees.end(), fold.stack().begin(), fold.stack().end());
  }
  TreeFold fold(leaves);
  return Fold(fold, subtrees, sums);
}

// Calls `visit` with every way to give `leaves` leaves to `count` devices.
void ForEachAssignment(
    int64_t leaves, int count,
    const std::function<void(const std::vector<Range>&)>& visit) {
  std::vector<Range> devices;
  std::function<void(int64_t, int)> give = [&](int64_t begin, int left) {
    for (int64_t end = left == 1 ? leaves : begin; end <= leaves; ++end) {
      devices.push_back({begin, end});
      if (left == 1) {
        visit(devices);
      } else {
        give(end, left - 1);
      }
      devices.pop_back();
    }
  };
  give(0, count);
}

TEST(GradientTree, LooksAsDocumented) {
  EXPECT_EQ(Definition<Text>(6).value, "(((0+1)+(2+3))+(4+5))");
  EXPECT_THAT(Combine<Text>(6, {{0, 6}}), ElementsAre(Definition<Text>(6)));
  EXPECT_THAT(Combine<Text>(7, {{0, 3}, {3, 7}}),
              ElementsAre(Text{"(((0+1)+(2+3))+((4+5)+6))"}));
}

TEST(GradientTree, SameExpressionForEveryAssignment) {
  for (int64_t leaves = 1; leaves <= 10; ++leaves) {
    for (int devices = 1; devices <= 5; ++devices) {
      ForEachAssignment(leaves, devices, [&](const std::vector<Range>& ranges) {
        ASSERT_THAT(Combine<Text>(leaves, ranges),
                    ElementsAre(Definition<Text>(leaves)));
      });
    }
  }
}

TEST(GradientTree, SameDigestForEveryAssignmentOfUpTo40) {
  for (int64_t leaves = 11; leaves <= 40; ++leaves) {
    const Digest expected = Definition<Digest>(leaves);
    int64_t wrong = 0;
    for (int devices = 1; devices <= 5; ++devices) {
      ForEachAssignment(leaves, devices, [&](const std::vector<Range>& ranges) {
        const auto sums = Combine<Digest>(leaves, ranges);
        wrong += !(sums.size() == 1 && sums[0] == expected);
      });
    }
    EXPECT_EQ(wrong, 0) << leaves << " leaves";
  }
}

TEST(GradientTree, SameExpressionOnManyDevices) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const int64_t leaves = 1 + static_cast<int64_t>(random() % 300);
    std::vector<int64_t> cuts = {0, leaves};
    for (unsigned i = random() % 64; i > 0; --i) {
      cuts.push_back(static_cast<int64_t>(random() % (leaves + 1)));
    }
    std::sort(cuts.begin(), cuts.end());
    std::vector<Range> devices;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      devices.push_back({cuts[i], cuts[i + 1]});
    }
    ASSERT_THAT(Combine<Text>(leaves, devices),
                ElementsAre(Definition<Text>(leaves)));
  }
}

TEST(GradientTree, DigestTellsOrdersApart) {
  const Digest a = Digest::Leaf(0), b = Digest::Leaf(1), c = Digest::Leaf(2);
  EXPECT_FALSE((a + b) + c == a + (b + c));
  EXPECT_FALSE(a + b == b + a);
}

TEST(MaximalSubtrees, OfExamples) {
  EXPECT_THAT(MaximalSubtrees(8, {0, 8}), ElementsAre(Range{0, 8}));
  EXPECT_THAT(MaximalSubtrees(8, {1, 7}),
              ElementsAre(Range{1, 2}, Range{2, 4}, Range{4, 6}, Range{6, 7}));
  // Cut off at the right end, [4, 7) is whole; [4, 6) of 7 is not all of it.
  EXPECT_THAT(MaximalSubtrees(7, {3, 7}),
              ElementsAre(Range{3, 4}, Range{4, 7}));
  EXPECT_THAT(MaximalSubtrees(7, {4, 6}), ElementsAre(Range{4, 6}));
  EXPECT_THAT(MaximalSubtrees(7, {5, 5}), ElementsAre());
}

TEST(MaximalSubtrees, AreFewAndNoTwoAreHalvesOfANode) {
  for (int64_t leaves = 1; leaves <= 64; ++leaves) {
    for (int64_t begin = 0; begin < leaves; ++begin) {
      for (int64_t end = begin + 1; end <= leaves; ++end) {
        const auto nodes = MaximalSubtrees(leaves, {begin, end});
        ASSERT_EQ(nodes.front().begin, begin);
        ASSERT_EQ(nodes.back().end, end);
        ASSERT_LE(static_cast<double>(nodes.size()),
                  std::max(1.0, 2 * std::log2(leaves)));
        ASSERT_LE(static_cast<double>(LivePartials(leaves, {begin, end})),
                  2 * std::log2(leaves) + 1);
        TreeFold fold(leaves);
        for (const Range node : nodes) ASSERT_EQ(fold.Push(node), 0);
      }
    }
  }
}

TEST(LivePartials, CountsTheNewestLeaf) {
  EXPECT_EQ(LivePartials(1, {0, 1}), 1);
  EXPECT_EQ(LivePartials(8, {0, 2}), 2);
  EXPECT_EQ(LivePartials(8, {0, 8}), 4);  // [0,4) [4,6) 6 7
  EXPECT_EQ(LivePartials(1024, {0, 1024}), 11);
  EXPECT_EQ(LivePartials(8, {3, 3}), 0);
}

TEST(MaxLivePartials, IsTheLargestOfAnyDevice) {
  for (int64_t leaves = 1; leaves <= 70; ++leaves) {
    int64_t of_any = 0, of_first = 0;
    for (int64_t begin = 0; begin < leaves; ++begin) {
      for (int64_t end = begin + 1; end <= leaves; ++end) {
        const int64_t live = LivePartials(leaves, {begin, end});
        of_any = std::max(of_any, live);
        if (begin == 0) of_first = std::max(of_first, live);
      }
    }
    EXPECT_EQ(MaxLivePartials(leaves), of_any) << leaves;
    EXPECT_EQ(MaxLivePartials(leaves, 2), of_any) << leaves;
    EXPECT_EQ(MaxLivePartials(leaves, 1), of_first) << leaves;
  }
}

}  // namespace
}  // namespace recurve
