#include "server/process.h"

#include <unistd.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

namespace recurve::server {
namespace {

constexpr int64_t kBlock = 64 << 10;  // glibc has those in its arenas

int64_t ResidentBytes() {
  int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Blocks in use, and one that keeps the arena from getting shorter.
struct Burst {
  Burst() {
    for (int i = 0; i < 1000; ++i) {
      blocks.push_back(std::make_unique<char[]>(kBlock));
      std::memset(blocks.back().get(), 1, kBlock);
    }
    last = std::make_unique<char[]>(kBlock);
  }
  std::vector<std::unique_ptr<char[]>> blocks;
  std::unique_ptr<char[]> last;
};

TEST(ReturnFreeMemoryTest, TheSystemHasBackWhatABurstTook) {
  Burst burst;
  burst.blocks.clear();
  const int64_t before = ResidentBytes();
  EXPECT_GE(ReturnFreeMemory(1), 1000 * kBlock);
  EXPECT_LT(ResidentBytes(), before - 900 * kBlock);
}

TEST(ReturnFreeMemoryTest, LittleIsKeptForTheNextRequests) {
  Burst burst;
  burst.blocks.clear();
  const int64_t before = ResidentBytes();
  EXPECT_LT(ReturnFreeMemory(int64_t{1} << 40), int64_t{1} << 40);
  EXPECT_GT(ResidentBytes(), before - 100 * kBlock);
}

}  // namespace
}  // namespace recurve::server
