// The thresholds, and why.
#include "kernels/cuda/recurrence_plan.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace recurve::cuda {
namespace {

RecurrenceProblem Problem(Recurrence recurrence, int64_t batch, int64_t length,
                          int64_t hidden_size) {
  RecurrenceProblem problem;
  problem.recurrence = recurrence;
  problem.num_sequences = batch;
  problem.num_rows = batch * length;
  problem.hidden_size = hidden_size;
  return problem;
}

// Memory of the largest chip answers after 0.7 us at 4.8 TB/s, so 3.3 MB must
// be on their way. A serial walk has 8 steps of 4 values ahead, 128 bytes a
// channel: 16384 channels make 2 MB, and less leaves more than a third of the
// bandwidth unused. A scan has 64 steps ahead.
TEST(RecurrencePlanTest, FewLongSequencesAreScanned) {
  EXPECT_TRUE(
      PlanRecurrence(Problem(Recurrence::kQrnnForward, 8, 512, 320)).scan);
  EXPECT_TRUE(
      PlanRecurrence(Problem(Recurrence::kSruBackward, 31, 64, 512)).scan);
  EXPECT_FALSE(
      PlanRecurrence(Problem(Recurrence::kSruBackward, 32, 64, 512)).scan);
  EXPECT_FALSE(
      PlanRecurrence(Problem(Recurrence::kQrnnBackward, 64, 512, 320)).scan);
}

TEST(RecurrencePlanTest, DirectionsCountAsChannels) {
  RecurrenceProblem problem = Problem(Recurrence::kQrnnForward, 16, 512, 512);
  EXPECT_TRUE(PlanRecurrence(problem).scan);
  problem.num_directions = 2;
  EXPECT_FALSE(PlanRecurrence(problem).scan);
}

// Shorter than a turn of 64 steps, most warps of a scan's block have nothing to
// do, and the whole serial walk takes about as long as one wait for memory.
TEST(RecurrencePlanTest, ShortSequencesAreWalkedSerially) {
  EXPECT_FALSE(
      PlanRecurrence(Problem(Recurrence::kQrnnForward, 8, 63, 320)).scan);
  EXPECT_FALSE(
      PlanRecurrence(Problem(Recurrence::kSruBackward, 1, 1, 320)).scan);
  // The mean counts.
  RecurrenceProblem mixed = Problem(Recurrence::kQrnnForward, 2, 0, 320);
  mixed.num_rows = 127;
  EXPECT_FALSE(PlanRecurrence(mixed).scan);
  mixed.num_rows = 128;
  EXPECT_TRUE(PlanRecurrence(mixed).scan);
}

// The gates read the state: a step is no linear map of it.
TEST(RecurrencePlanTest, SrusForwardPassIsNeverScanned) {
  EXPECT_FALSE(
      PlanRecurrence(Problem(Recurrence::kSruForward, 1, 4096, 320)).scan);
}

// Wide accesses save instructions, but take as many channels a thread: worth it
// once 16384 threads remain, 124 for each of an H200's 132 multiprocessors.
TEST(RecurrencePlanTest, ManyChannelsAreWalkedWithWideAccesses) {
  RecurrenceProblem problem = Problem(Recurrence::kSruForward, 64, 128, 1024);
  EXPECT_EQ(PlanRecurrence(problem).vec, 4);
  problem.num_sequences = 63;
  EXPECT_EQ(PlanRecurrence(problem).vec, 1);
  problem.num_sequences = 128;
  problem.element_bytes = 2;
  EXPECT_EQ(PlanRecurrence(problem).vec, 8);
  problem.num_sequences = 127;
  EXPECT_EQ(PlanRecurrence(problem).vec, 1);
}

TEST(RecurrencePlanTest, WideAccessesNeedAlignment) {
  RecurrenceProblem problem = Problem(Recurrence::kSruForward, 512, 128, 1024);
  EXPECT_EQ(PlanRecurrence(problem).vec, 4);
  problem.address_bits = 16 | 64 | 4096;
  EXPECT_EQ(PlanRecurrence(problem).vec, 4);
  for (uint64_t bit : {1, 2, 4, 8}) {
    problem.address_bits = 64 | bit;
    EXPECT_EQ(PlanRecurrence(problem).vec, 1) << bit;
  }
  problem.address_bits = 0;
  problem.hidden_size = 1022;  // the second gate group begins in between
  EXPECT_EQ(PlanRecurrence(problem).vec, 1);
  problem.hidden_size = 1020;
  EXPECT_EQ(PlanRecurrence(problem).vec, 4);
  problem.element_bytes = 2;
  EXPECT_EQ(PlanRecurrence(problem).vec, 1);
}

TEST(RecurrencePlanTest, AddressBitsAreOfPointerAndStrideInBytes) {
  alignas(64) static float memory[64];
  EXPECT_EQ(AddressBits(Matrix<float>()), 0u);
  EXPECT_EQ(AddressBits(Matrix<float>(memory, 2, 8)) % 64, 32u);
  EXPECT_EQ(AddressBits(Matrix<float>(memory + 1, 2, 8)) % 64, 36u);
  EXPECT_EQ(AddressBits(Matrix<float>(memory, 2, 7)) % 16, 12u);
}

// Few threads are spread over many multiprocessors; many go in large blocks.
TEST(RecurrencePlanTest, BlocksAreSmallWhereThreadsAreFew) {
  EXPECT_EQ(PlanRecurrence(Problem(Recurrence::kSruForward, 1, 9, 8)).block,
            32);
  EXPECT_EQ(PlanRecurrence(Problem(Recurrence::kSruForward, 16, 9, 512)).block,
            64);
  EXPECT_EQ(PlanRecurrence(Problem(Recurrence::kSruForward, 60, 9, 512)).block,
            128);
  EXPECT_EQ(PlanRecurrence(Problem(Recurrence::kQrnnForward, 1, 99, 8)).block,
            kScanThreads);
}

TEST(RecurrencePlanTest, NothingToDoHasAPlan) {
  const RecurrencePlan plan =
      PlanRecurrence(Problem(Recurrence::kQrnnBackward, 0, 0, 8));
  EXPECT_GT(plan.block, 0);
}

}  // namespace
}  // namespace recurve::cuda
