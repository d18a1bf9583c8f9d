#include "engine/train/gradient_exchange.h"

#include <memory>
#include <thread>
#include <vector>

#include "engine/schedule/gradient_tree.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/backend.h"

namespace recurve {
namespace {

using ::testing::ElementsAre;

// A number that no other (leaf, parameter) has, and whose sums do not round.
float Leaf(int64_t leaf, int64_t i) {
  return static_cast<float>((leaf + 1) * 1000 + i);
}

// Rank `rank`'s part: sums its leaves, reduces, gathers; returns everything.
std::vector<float> RunRank(Communicator& communicator, int64_t count,
                           int64_t num_leaves,
                           const std::vector<Range>& assignment) {
  const int rank = communicator.rank();
  const auto backend = CreateCpuBackend(1);
  GradientExchange exchange(*backend, count, rank, communicator.world_size());
  std::vector<std::vector<Range>> subtrees;
  for (const Range leaves : assignment) {
    subtrees.push_back(MaximalSubtrees(num_leaves, leaves));
  }
  std::vector<std::vector<float>> sums;
  std::vector<float*> partials;
  for (const Range subtree : subtrees[rank]) {
    sums.emplace_back(count, 0.0f);
    for (int64_t leaf = subtree.begin; leaf < subtree.end; ++leaf) {
      for (int64_t i = 0; i < count; ++i) sums.back()[i] += Leaf(leaf, i);
    }
  }
  for (auto& sum : sums) partials.push_back(sum.data());
  const auto shard =
      exchange.ReduceShard(communicator, num_leaves, subtrees, partials);
  EXPECT_TRUE(shard.ok()) << shard.status();
  std::vector<float> sum(count);
  const absl::Status status = exchange.Gather(communicator, *shard, sum.data());
  EXPECT_TRUE(status.ok()) << status;
  return sum;
}

TEST(GradientExchange, EveryDeviceHasTheWholeSum) {
  for (const int64_t count : {16, 40, 1000}) {
    const std::vector<std::vector<Range>> assignments = {
        {{0, 7}},
        {{0, 3}, {3, 7}},
        {{0, 0}, {0, 6}, {6, 7}},
        {{0, 1}, {1, 1}, {1, 6}, {6, 6}, {6, 7}},
    };
    for (const auto& assignment : assignments) {
      const int ranks = static_cast<int>(assignment.size());
      auto communicators = CreateLocalCommunicators(ranks);
      std::vector<std::vector<float>> sums(ranks);
      std::vector<std::thread> threads;
      for (int rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
          sums[rank] = RunRank(*communicators[rank], count, 7, assignment);
        });
      }
      for (std::thread& thread : threads) thread.join();
      for (int rank = 0; rank < ranks; ++rank) {
        for (int64_t i = 0; i < count; ++i) {
          // 1000 (1 + ... + 7) + 7 i
          ASSERT_EQ(sums[rank][i], static_cast<float>(28000 + 7 * i))
              << "rank " << rank << " of " << ranks << ", parameter " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace recurve
