#include "engine/model/replay_cache.h"

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/backend.h"
#include "kernels/forwarding_backend.h"

namespace recurve {
namespace {

// Records at the first call, repeats afterwards, as a backend may.
class RecordingBackend : public ForwardingBackend {
 public:
  RecordingBackend() : ForwardingBackend(CreateCpuBackend(1)) {}

  absl::Status Replay(std::unique_ptr<Recording>& recording,
                      absl::FunctionRef<absl::Status()> operations) override {
    if (recording != nullptr) {
      ++repeated;
      return absl::OkStatus();
    }
    recording = std::make_unique<Kept>(&alive);
    return operations();
  }

  int repeated = 0;
  int alive = 0;

 private:
  class Kept : public Recording {
   public:
    explicit Kept(int* alive) : alive_(alive) { ++*alive_; }
    ~Kept() override { --*alive_; }

   private:
    int* const alive_;
  };
};

class ReplayCacheTest : public testing::Test {
 protected:
  void Run(int64_t key) {
    ASSERT_TRUE(cache_
                    .Run({key, 7},
                         [&] {
                           issued_.push_back(key);
                           return absl::OkStatus();
                         })
                    .ok());
  }

  RecordingBackend backend_;
  ReplayCache cache_{backend_, 2};
  std::vector<int64_t> issued_;
};

TEST_F(ReplayCacheTest, EqualKeysAreIssuedOnce) {
  Run(1);
  Run(2);
  Run(1);
  Run(2);
  EXPECT_EQ(issued_, std::vector<int64_t>({1, 2}));
  EXPECT_EQ(backend_.repeated, 2);
}

TEST_F(ReplayCacheTest, TheKeyUnusedForLongestIsForgotten) {
  Run(1);
  Run(2);
  Run(1);
  Run(3);  // in place of 2
  Run(1);
  Run(2);
  EXPECT_EQ(issued_, std::vector<int64_t>({1, 2, 3, 2}));
  EXPECT_EQ(backend_.alive, 2);
}

TEST_F(ReplayCacheTest, ClearForgetsAll) {
  Run(1);
  cache_.Clear();
  EXPECT_EQ(backend_.alive, 0);
  Run(1);
  EXPECT_EQ(issued_, std::vector<int64_t>({1, 1}));
}

TEST_F(ReplayCacheTest, WhatFailedIsIssuedAgain) {
  EXPECT_EQ(cache_.Run({1, 7}, [] { return absl::InternalError("lost"); }),
            absl::InternalError("lost"));
  EXPECT_EQ(backend_.alive, 0);
  Run(1);
  EXPECT_EQ(issued_, std::vector<int64_t>({1}));
}

}  // namespace
}  // namespace recurve
