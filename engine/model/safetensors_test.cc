#include "engine/model/safetensors.h"

#include <cstring>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using absl::StatusCode;

std::string WithSize(uint64_t size, const std::string& rest) {
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &size, 8);
  return bytes + rest;
}

// A file of this header and so many bytes of data: 0, 1, 2, ...
std::string File(const std::string& header, int data_bytes) {
  std::string data;
  for (int i = 0; i < data_bytes; ++i) data.push_back(static_cast<char>(i));
  return WithSize(header.size(), header + data);
}

absl::StatusOr<Safetensors> Parse(const std::string& bytes) {
  return Safetensors::Parse(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

void ExpectError(const std::string& bytes, StatusCode code,
                 absl::string_view part) {
  const absl::Status status = Parse(bytes).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), part)) << status;
}

void ExpectInvalid(const std::string& header, int data_bytes,
                   absl::string_view part) {
  ExpectError(File(header, data_bytes), StatusCode::kInvalidArgument, part);
}

TEST(SafetensorsTest, ReadsTensorsInAnyOrderWithMetadata) {
  const std::string bytes =
      File(R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]},)"
           R"("__metadata__":{"k":"v","":"x"},)"
           R"("a":{"data_offsets":[0,4],"shape":[1,2],"dtype":"I16"},)"
           R"("s":{"dtype":"I8","shape":[],"data_offsets":[6,7]},)"
           R"("none":{"dtype":"F64","shape":[3,0],"data_offsets":[4,4]}}  )",
           7);
  absl::StatusOr<Safetensors> file = Parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors().size(), 4u);
  EXPECT_EQ(file->metadata(), (MetadataMap{{"", "x"}, {"k", "v"}}));
  const TensorView& a = *file->Find("a");
  EXPECT_EQ(a.dtype, DType::kI16);
  EXPECT_EQ(a.shape, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(*ToIntegers("a", a), (std::vector<int64_t>{0x0100, 0x0302}));
  EXPECT_EQ(*ToIntegers("b", *file->Find("b")), (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(file->Find("s")->count(), 1);
  EXPECT_EQ(file->Find("none")->count(), 0);
  EXPECT_EQ(file->Find("other"), nullptr);
}

TEST(SafetensorsTest, AFileWithoutTensorsIsEmpty) {
  EXPECT_TRUE(Parse(File("{}", 0))->tensors().empty());
}

TEST(SafetensorsTest, EveryOfficialTypeIsRead) {
  for (const auto& [name, bytes] : std::vector<std::pair<std::string, int>>{
           {"BOOL", 8},    {"F4", 4},   {"F6_E2M3", 6}, {"F6_E3M2", 6},
           {"U8", 8},      {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8},
           {"F8_E8M0", 8}, {"I16", 16}, {"U16", 16},    {"F16", 16},
           {"BF16", 16},   {"I32", 32}, {"U32", 32},    {"F32", 32},
           {"C64", 64},    {"F64", 64}, {"I64", 64},    {"U64", 64}}) {
    const absl::StatusOr<Safetensors> file = Parse(
        File(absl::StrCat(R"({"x":{"dtype":")", name,
                          R"(","shape":[8],"data_offsets":[0,)", bytes, "]}}"),
             bytes));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(DTypeName(file->Find("x")->dtype), name);
  }
}

TEST(SafetensorsTest, BytesThatEndEarlyAreDataLoss) {
  const std::string bytes =
      File(R"({"x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(Parse(bytes.substr(0, size)).status().code(),
              StatusCode::kDataLoss)
        << size;
  }
  ExpectError(bytes.substr(0, bytes.size() - 1), StatusCode::kDataLoss,
              "tensor `x` ends at byte 4 of the data, which has 3");
}

TEST(SafetensorsTest, HugeHeadersAreRefused) {
  ExpectError(WithSize(100'000'001, "{}"), StatusCode::kInvalidArgument,
              "the header's size is 100000001 bytes; the limit is 100000000");
  ExpectError(WithSize(~uint64_t{0}, "{}"), StatusCode::kInvalidArgument,
              "18446744073709551615");
  ExpectError(WithSize(100'000'000, "{}"), StatusCode::kDataLoss, "of which 2");
}

TEST(SafetensorsTest, HeadersThatAreNotJsonAreRefused) {
  ExpectInvalid("", 0, "does not begin with {");
  ExpectInvalid("  {}", 0, "does not begin with {");
  ExpectInvalid("[]", 0, "does not begin with {");
  ExpectInvalid("{", 0, "not JSON");
  ExpectInvalid("{}x", 0, "not JSON");
  ExpectInvalid("{}{}", 0, "not JSON");
  ExpectInvalid("{\"\xff\":1}", 0, "not JSON");
  ExpectInvalid(R"({"a":{"dtype":"U8","shape":[1e999],)", 0, "not JSON");
}

TEST(SafetensorsTest, ValuesOfTheWrongKindAreRefused) {
  ExpectInvalid(R"({"a":1})", 0, "a number where the header must not have it");
  ExpectInvalid(R"({"a":null})", 0, "null");
  ExpectInvalid(R"({"a":[]})", 0, "an array");
  ExpectInvalid(R"({"a":{"dtype":1}})", 0, "a number");
  ExpectInvalid(R"({"a":{"dtype":{}}})", 0, "an object");
  ExpectInvalid(R"({"a":{"shape":3}})", 0, "a number");
  ExpectInvalid(R"({"a":{"shape":["3"]}})", 0, "a string");
  ExpectInvalid(R"({"a":{"shape":[[3]]}})", 0, "an array");
  ExpectInvalid(R"({"a":{"shape":[-3]}})", 0, "-3");
  ExpectInvalid(R"({"a":{"shape":[1.5]}})", 0, "1.5");
  ExpectInvalid(R"({"a":{"shape":[true]}})", 0, "a boolean");
  ExpectInvalid(R"({"a":{"shape":[9223372036854775808]}})", 0,
                "over the limit of 2^63 - 1");
  ExpectInvalid(R"({"a":{"shape":[99999999999999999999]}})", 0,
                "99999999999999999999");
  ExpectInvalid(R"({"__metadata__":{"a":1}})", 0, "a number");
  ExpectInvalid(R"({"__metadata__":{"a":{}}})", 0, "an object");
  ExpectInvalid(R"({"__metadata__":"a"})", 0, "a string");
}

TEST(SafetensorsTest, DeepNestingEndsAtItsFirstStep) {
  std::string deep = R"({"a":{"shape":)" + std::string(1'000'000, '[');
  ExpectInvalid(deep, 0, "an array");
}

TEST(SafetensorsTest, IncompleteTensorsAreRefused) {
  ExpectInvalid(R"({"a":{}})", 0, "tensor `a` has no dtype");
  ExpectInvalid(R"({"a":{"dtype":"U8"}})", 0, "has no shape");
  ExpectInvalid(R"({"a":{"dtype":"U8","shape":[]}})", 0, "data_offsets");
  ExpectInvalid(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0]}})", 0,
                "data_offsets");
  ExpectInvalid(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0,0]}})", 0,
                "data_offsets");
  ExpectInvalid(R"({"a":{"dtype":"U8","x":1}})", 0, "unknown key `x`");
  ExpectInvalid(R"({"a":{"dtype":"F33"}})", 0, "unknown dtype `F33`");
}

TEST(SafetensorsTest, KeysThatStandTwiceAreRefused) {
  ExpectInvalid(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                2, "key `a` stands twice");
  ExpectInvalid(R"({"a":{"dtype":"U8","dtype":"U8"}})", 0,
                "key `dtype` stands twice in tensor `a`");
  ExpectInvalid(R"({"a":{"shape":[],"shape":[]}})", 0, "twice");
  ExpectInvalid(R"({"a":{"data_offsets":[0,0],"data_offsets":[0,0]}})", 0,
                "twice");
  ExpectInvalid(R"({"__metadata__":{"k":"1","k":"2"}})", 0,
                "key `k` stands twice in __metadata__");
  ExpectInvalid(R"({"__metadata__":{},"__metadata__":{}})", 0, "twice");
}

TEST(SafetensorsTest, OffsetsMustFitTheShape) {
  ExpectInvalid(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
                "data_offsets [0, 4] span 4 bytes, but F32 [2] takes 8");
  ExpectInvalid(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[2,0]}})", 2,
                "descend");
  ExpectInvalid(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],)"
                R"("data_offsets":[0,0]}})",
                0, "the size of shape [4294967296, 4294967296] overflows");
  ExpectInvalid(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}})", 1,
                "whole bytes");
}

TEST(SafetensorsTest, TensorsMustCoverTheDataOnce) {
  ExpectInvalid(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                3, "tensor `b` begins at byte 1 of the data, where byte 2");
  ExpectInvalid(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                R"("b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
                5, "hole");
  ExpectInvalid(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})", 3,
                "hole");
  ExpectInvalid(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", 3,
                "end at byte 2 of the data, which has 3");
}

FloatTensorMap SomeTensors() {
  return {{"b", {{2, 3}, {1, 2, 3, 4, 5, 6}}},
          {"a", {{1}, {-1}}},
          {"empty", {{0, 4}, {}}},
          {"with \"quotes\"", {{}, {7}}}};
}

TEST(SafetensorsTest, WhatIsWrittenReadsBack) {
  const FloatTensorMap tensors = SomeTensors();
  const MetadataMap metadata = {{"a \"key\"", "a\nvalue"}};
  const std::string bytes = *SerializeSafetensors(Views(tensors), metadata);
  absl::StatusOr<Safetensors> file = Parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->metadata(), metadata);
  ASSERT_EQ(file->tensors().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const TensorView* read = file->Find(name);
    ASSERT_NE(read, nullptr) << name;
    EXPECT_EQ(read->shape, tensor.shape);
    EXPECT_EQ(*ToFloats(name, *read), tensor.values);
  }
}

TEST(SafetensorsTest, WritesSortedNamesAndAnAlignedHeader) {
  EXPECT_EQ(
      *SerializeSafetensors(Views({{"b", {{1}, {0}}}, {"a", {{2}, {0, 0}}}}),
                            {}),
      WithSize(112,
               R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
               R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}    )" +
                   std::string(12, '\0')));
}

TEST(SafetensorsTest, WiderTypesComeFirstSoThatEachIsAligned) {
  const std::vector<uint8_t> zeros(8);
  const TensorMap tensors = {
      {"a", {DType::kU8, {1}, {zeros.data(), 1}}},
      {"b", {DType::kF32, {1}, {zeros.data(), 4}}},
      {"c", {DType::kF64, {1}, {zeros.data(), 8}}},
  };
  const std::string bytes = *SerializeSafetensors(tensors, {});
  const absl::StatusOr<Safetensors> file = Parse(bytes);
  const uint8_t* data = file->Find("c")->bytes.data();
  EXPECT_EQ((data - reinterpret_cast<const uint8_t*>(bytes.data())) % 8, 0);
  EXPECT_EQ(file->Find("b")->bytes.data(), data + 8);
  EXPECT_EQ(file->Find("a")->bytes.data(), data + 12);
}

TEST(SafetensorsTest, WhatCannotBeReadBackIsNotWritten) {
  const FloatTensorMap ok = {{"__metadata__", {{}, {1}}}};
  EXPECT_FALSE(SerializeSafetensors(Views(ok), {}).ok());
  EXPECT_FALSE(SerializeSafetensors(Views({{"\xff", {{}, {1}}}}), {}).ok());
  EXPECT_FALSE(SerializeSafetensors({}, {{"k", "\xff"}}).ok());
  const absl::Status status =
      SerializeSafetensors(Views({{"a", {{3}, {1}}}}), {}).status();
  EXPECT_TRUE(absl::StrContains(status.message(), "has 4 bytes")) << status;
}

TEST(SafetensorsTest, AFileOnDiskIsTheSameBytes) {
  const std::string path = testing::TempDir() + "/some.safetensors";
  const FloatTensorMap tensors = SomeTensors();
  const MetadataMap metadata = {{"k", "v"}};
  ASSERT_TRUE(WriteSafetensors(path, Views(tensors), metadata).ok());
  EXPECT_EQ(*ReadFile(path, 10000),
            *SerializeSafetensors(Views(tensors), metadata));
  Safetensors file = *Safetensors::Open(path);
  const Safetensors moved = std::move(file);
  EXPECT_EQ(*ToFloats("b", *moved.Find("b")), tensors.at("b").values);
}

TEST(SafetensorsTest, ErrorsOfAFileNameItsPath) {
  const std::string path = testing::TempDir() + "/bad.safetensors";
  ASSERT_TRUE(WriteFileAtomically(path, {"bad"}).ok());
  const absl::Status status = Safetensors::Open(path).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_TRUE(absl::StartsWith(status.message(), path)) << status;
}

}  // namespace
}  // namespace recurve
