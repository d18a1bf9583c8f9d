#include "engine/schedule/device_budgets.h"

#include <map>
#include <string>
#include <vector>

#include "engine/schedule/memory_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr int64_t kHost = 64 * kGiB;

std::map<int, Gpu> Gpus(int count) {
  std::map<int, Gpu> gpus;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    gpus[ordinal] = {.name = "Test GPU",
                     .capability_major = 9,
                     .capability_minor = 0,
                     .memory_bytes = 80 * kGiB,
                     .free_bytes = 64 * kGiB};
  }
  return gpus;
}

std::vector<int64_t> Budgets(const std::string& devices,
                             const std::map<int, Gpu>& gpus = {}) {
  std::vector<DeviceSpec> specs = *ParseDevices(devices);
  const absl::Status status = SetBudgets(specs, kHost, gpus);
  EXPECT_TRUE(status.ok()) << status;
  std::vector<int64_t> budgets;
  for (const DeviceSpec& spec : specs) budgets.push_back(spec.memory_bytes);
  return budgets;
}

std::string Refusal(const std::string& devices,
                    const std::map<int, Gpu>& gpus) {
  std::vector<DeviceSpec> specs = *ParseDevices(devices);
  const absl::Status status = SetBudgets(specs, kHost, gpus);
  EXPECT_FALSE(status.ok()) << devices;
  return std::string(status.message());
}

TEST(SetBudgets, CpuDevicesShareThreeQuartersOfTheMachine) {
  EXPECT_THAT(Budgets("cpu:2"), ElementsAre(48 * kGiB));
  EXPECT_THAT(Budgets("cpu:1,cpu:9,cpu:1"),
              ElementsAre(16 * kGiB, 16 * kGiB, 16 * kGiB));
  EXPECT_THAT(Budgets("cpu:1,cpu:1:memory=1GiB"),
              ElementsAre(24 * kGiB, 1 * kGiB));
}

TEST(SetBudgets, ACudaDeviceHasMostOfWhatIsFreeOfItsGpu) {
  EXPECT_THAT(Budgets("cuda:0,cuda:1:memory=64GiB", Gpus(2)),
              ElementsAre(60 * kGiB, 64 * kGiB));
}

TEST(SetBudgets, DevicesOnOneGpuShareIt) {
  EXPECT_THAT(Budgets("cuda:0,cuda:0", Gpus(1)),
              ElementsAre(30 * kGiB, 30 * kGiB));
  EXPECT_THAT(Budgets("cuda:0,cuda:0:memory=20GiB,cuda:0", Gpus(1)),
              ElementsAre(20 * kGiB, 20 * kGiB, 20 * kGiB));
  EXPECT_THAT(Budgets("cuda:1,cuda:0,cuda:1", Gpus(2)),
              ElementsAre(30 * kGiB, 60 * kGiB, 30 * kGiB));
}

TEST(SetBudgets, CpuAndCudaDevicesDoNotShareMemory) {
  EXPECT_THAT(Budgets("cpu:2,cuda:0,cpu:2", Gpus(1)),
              ElementsAre(24 * kGiB, 60 * kGiB, 24 * kGiB));
}

TEST(SetBudgets, RefusesMoreThanIsFreeOfAGpu) {
  EXPECT_THAT(
      Refusal("cuda:0:memory=40GiB,cuda:0:memory=25GiB", Gpus(1)),
      HasSubstr("device \"cuda:0:memory=25GiB\": the devices on this GPU have "
                "budgets of 65.0 GiB in all; 64.0 GiB of its 80.0 GiB are "
                "free"));
  EXPECT_THAT(Budgets("cuda:0:memory=40GiB,cuda:0:memory=24GiB", Gpus(1)),
              ElementsAre(40 * kGiB, 24 * kGiB));
}

TEST(SetBudgets, RefusesGpusTooOldForTheKernels) {
  std::map<int, Gpu> gpus = Gpus(2);
  gpus[1].capability_major = 7;
  gpus[1].capability_minor = 5;
  EXPECT_FALSE(Budgets("cuda:0", gpus).empty());
  EXPECT_THAT(Refusal("cuda:1", gpus),
              HasSubstr("Test GPU has compute capability 7.5; the kernels need "
                        "8.0 or above"));
}

TEST(SetBudgets, RefusesBudgetsThatTheWorkspaceFills) {
  const std::string all =
      std::to_string(WorkspacePlan(ParseDevices("cpu:3")->front()).total());
  EXPECT_THAT(Refusal("cpu:3:memory=" + all, {}),
              HasSubstr("of which its workspace takes"));
  EXPECT_THAT(Refusal("cuda:0:memory=1MiB", Gpus(1)),
              HasSubstr("of which its workspace takes"));
  // Nothing is left.
  EXPECT_THAT(Refusal("cuda:0:memory=64GiB,cuda:0", Gpus(1)),
              HasSubstr("device \"cuda:0\": its budget is 1 bytes"));
}

TEST(FindGpus, AsksForThoseThatAreNamed) {
  const auto none = FindGpus(*ParseDevices("cpu:1,cpu:2"));
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_TRUE(none->empty());
  // No machine has that many.
  const absl::Status status = FindGpus(*ParseDevices("cpu:1,cuda:63")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("device \"cuda:63\": "));
}

}  // namespace
}  // namespace recurve
