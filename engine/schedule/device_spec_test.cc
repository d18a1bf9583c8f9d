#include "engine/schedule/device_spec.h"

#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ParseDevices, ReadsThreadsAndMemoryInOrder) {
  const auto specs = ParseDevices("cpu:1,cpu:16:memory=2GiB,cpu:1024");
  ASSERT_TRUE(specs.ok()) << specs.status();
  ASSERT_EQ(specs->size(), 3u);
  EXPECT_EQ((*specs)[0].threads, 1);
  EXPECT_EQ((*specs)[0].memory_bytes, 0);
  EXPECT_EQ((*specs)[1].text, "cpu:16:memory=2GiB");
  EXPECT_EQ((*specs)[1].threads, 16);
  EXPECT_EQ((*specs)[1].memory_bytes, int64_t{2} << 30);
  EXPECT_EQ((*specs)[2].threads, 1024);
}

TEST(ParseDevices, EmptyMeansOneDeviceWithAllCores) {
  const auto specs = ParseDevices("");
  ASSERT_TRUE(specs.ok()) << specs.status();
  ASSERT_EQ(specs->size(), 1u);
  EXPECT_GE((*specs)[0].threads, 1);
  EXPECT_EQ((*specs)[0].text, "cpu:" + std::to_string((*specs)[0].threads));
}

TEST(ParseDevices, KnowsBinaryAndDecimalUnits) {
  const struct {
    const char* size;
    int64_t bytes;
  } kCases[] = {
      {"1", 1},
      {"65536", 65536},
      {"3KiB", 3 * 1024},
      {"3KB", 3000},
      {"5MiB", 5 * 1024 * 1024},
      {"5MB", 5'000'000},
      {"7GB", 7'000'000'000},
      {"1TiB", int64_t{1} << 40},
      {"2TB", 2'000'000'000'000},
  };
  for (const auto& [size, bytes] : kCases) {
    const auto specs = ParseDevices(std::string("cpu:1:memory=") + size);
    ASSERT_TRUE(specs.ok()) << specs.status();
    EXPECT_EQ((*specs)[0].memory_bytes, bytes) << size;
  }
}

TEST(ParseDevices, RefusesWhatIsNotADevice) {
  for (const char* entry : {"cpu",
                            "cpu:",
                            "cpu:0",
                            "cpu:-1",
                            "cpu:+1",
                            "cpu: 1",
                            "cpu:1025",
                            "cpu:1.5",
                            "cpu:99999999999999999999",
                            "gpu:1",
                            "CPU:1",
                            "cpu:1:",
                            "cpu:1:2",
                            "cpu:1:memory",
                            "cpu:1:memory=",
                            "cpu:1:memory=0",
                            "cpu:1:memory=-1GiB",
                            "cpu:1:memory=1.5GiB",
                            "cpu:1:memory=GiB",
                            "cpu:1:memory=1XB",
                            "cpu:1:memory=9999999TiB",
                            "cpu:1:memory=1GiB:x",
                            "cpu:1:memory=1GiB:memory=1GiB",
                            "cpu:1:products=tf32",
                            "cpu:1:products=fp16",
                            "cpu:1:products=",
                            "cpu:1:products",
                            "cpu:1:products=BF16",
                            "cpu:1:products=bf16:products=fp32",
                            "cuda",
                            "cuda:",
                            "cuda:-1",
                            "cuda:64",
                            "cuda:0:",
                            "cuda:0:1",
                            "cuda:0:memory=0",
                            "cuda:0:products",
                            "cuda:0:products=",
                            "cuda:0:products=fp8",
                            "cuda:0:products=fp16:products=fp16"}) {
    const auto specs = ParseDevices(entry);
    EXPECT_EQ(specs.status().code(), absl::StatusCode::kInvalidArgument)
        << entry;
    EXPECT_THAT(std::string(specs.status().message()),
                HasSubstr(std::string("\"") + entry + "\""));
  }
}

TEST(ParseDevices, NamesTheBadEntryAmongGoodOnes) {
  for (const char* flag : {"cpu:1,", ",cpu:1", "cpu:1,,cpu:1"}) {
    EXPECT_THAT(std::string(ParseDevices(flag).status().message()),
                HasSubstr("device \"\""))
        << flag;
  }
  EXPECT_THAT(std::string(ParseDevices("cpu:1,cpu:x").status().message()),
              HasSubstr("device \"cpu:x\": the number of threads is \"x\", "
                        "not 1 to 1024"));
}

TEST(ParseDevices, ReadsCudaDevicesWithOptionsInAnyOrder) {
  const auto specs = ParseDevices(
      "cuda:0,cuda:63:products=bf16:memory=80GiB,"
      "cuda:1:memory=1GB:products=fp16,cuda:2:products=tf32,"
      "cuda:2:products=fp32,cpu:4");
  ASSERT_TRUE(specs.ok()) << specs.status();
  ASSERT_EQ(specs->size(), 6u);
  using cuda::ProductPrecision;
  const struct {
    int ordinal;
    int64_t memory_bytes;
    ProductPrecision products;
  } kExpected[] = {{0, 0, ProductPrecision::kFp32},
                   {63, int64_t{80} << 30, ProductPrecision::kBf16},
                   {1, 1'000'000'000, ProductPrecision::kFp16},
                   {2, 0, ProductPrecision::kTf32},
                   {2, 0, ProductPrecision::kFp32}};
  for (int i = 0; i < 5; ++i) {
    const DeviceSpec& spec = (*specs)[i];
    EXPECT_EQ(spec.kind, DeviceKind::kCuda) << spec.text;
    EXPECT_EQ(spec.ordinal, kExpected[i].ordinal) << spec.text;
    EXPECT_EQ(spec.memory_bytes, kExpected[i].memory_bytes) << spec.text;
    EXPECT_EQ(spec.products, kExpected[i].products) << spec.text;
    EXPECT_EQ(spec.threads, 1) << spec.text;
  }
  EXPECT_EQ((*specs)[5].kind, DeviceKind::kCpu);
}

TEST(ParseDevices, ReadsHowCpuDevicesMultiply) {
  const auto specs =
      ParseDevices("cpu:1,cpu:2:products=bf16:memory=1GB,cpu:3:products=fp32");
  ASSERT_TRUE(specs.ok()) << specs.status();
  EXPECT_EQ((*specs)[0].products, cuda::ProductPrecision::kFp32);
  EXPECT_EQ((*specs)[1].products, cuda::ProductPrecision::kBf16);
  EXPECT_EQ((*specs)[1].memory_bytes, 1'000'000'000);
  EXPECT_EQ((*specs)[2].products, cuda::ProductPrecision::kFp32);
  EXPECT_THAT(
      std::string(ParseDevices("cpu:1:products=fp16").status().message()),
      HasSubstr("products \"fp16\" are not fp32 or bf16"));
}

TEST(TrainingDevices, AreOfOneKind) {
  EXPECT_THAT(TrainingDevices(*ParseDevices("cpu:1,cpu:2")), ElementsAre(0, 1));
  EXPECT_THAT(TrainingDevices(*ParseDevices("cuda:0,cuda:0")),
              ElementsAre(0, 1));
  EXPECT_THAT(TrainingDevices(*ParseDevices("cpu:1,cuda:0,cpu:1,cuda:1")),
              ElementsAre(1, 3));
}

TEST(TrainingDevices, MultiplyAlike) {
  EXPECT_THAT(TrainingDevices(*ParseDevices(
                  "cpu:1:products=bf16,cpu:1,cpu:2:products=bf16")),
              ElementsAre(0, 2));
  EXPECT_THAT(TrainingDevices(*ParseDevices("cpu:1,cpu:1:products=bf16")),
              ElementsAre(0));
  EXPECT_THAT(TrainingDevices(*ParseDevices(
                  "cpu:1,cuda:0:products=bf16,cuda:1,cuda:2:products=bf16")),
              ElementsAre(1, 3));
}

TEST(ParseDevices, LimitsTheNumberOfDevices) {
  const std::vector<std::string> most(kMaxDevices, "cpu:1");
  EXPECT_TRUE(ParseDevices(absl::StrJoin(most, ",")).ok());
  EXPECT_EQ(ParseDevices(absl::StrJoin(most, ",") + ",cpu:1").status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace recurve
