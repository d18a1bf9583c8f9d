#include "engine/data/npy.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace recurve {
namespace {

using absl::StatusCode;

std::string File(const std::string& header, const std::string& data,
                 int version = 1) {
  std::string bytes = "\x93NUMPY";
  bytes.append({static_cast<char>(version), 0});
  const size_t size = header.size();
  bytes.append({static_cast<char>(size), static_cast<char>(size >> 8)});
  if (version > 1) bytes.append(2, '\0');
  return bytes + header + data;
}

std::string Header(const std::string& descr, const std::string& shape) {
  return absl::StrCat("{'descr': '", descr,
                      "', 'fortran_order': False, 'shape': ", shape, ", }\n");
}

absl::StatusOr<TensorView> Parse(const std::string& bytes) {
  return ParseNpy(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
}

void ExpectError(const std::string& bytes, StatusCode code,
                 absl::string_view part) {
  const absl::Status status = Parse(bytes).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), part)) << status;
}

void ExpectInvalid(const std::string& header, absl::string_view part) {
  ExpectError(File(header, ""), StatusCode::kInvalidArgument, part);
}

TEST(NpyTest, ReadsEveryVersion) {
  for (int version = 1; version <= 3; ++version) {
    const std::string bytes =
        File(Header("|u1", "(2, 3)"), "\1\2\3\4\5\6", version);
    const auto array = Parse(bytes);
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_EQ(array->shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(*ToIntegers("x", *array),
              (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  }
}

TEST(NpyTest, ReadsWhatNumpyWrites) {
  // numpy.save of numpy.array([1.5, -2.0]), numpy 1.24.
  const std::string bytes =
      std::string("\x93NUMPY\x01\x00v\x00", 10) +
      "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }" +
      std::string(60, ' ') + "\n" +
      std::string("\0\0\0\0\0\0\xf8\x3f\0\0\0\0\0\0\0\xc0", 16);
  ASSERT_EQ(bytes.size(), 128u + 16);
  const auto array = Parse(bytes);
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(*ToDoubles("x", *array), (std::vector<double>{1.5, -2.0}));
}

TEST(NpyTest, ReadsEveryType) {
  for (const auto& [descr, dtype] :
       std::vector<std::pair<std::string, DType>>{{"|b1", DType::kBool},
                                                  {"|u1", DType::kU8},
                                                  {"|i1", DType::kI8},
                                                  {"<u1", DType::kU8},
                                                  {"<i2", DType::kI16},
                                                  {"<u2", DType::kU16},
                                                  {"<f2", DType::kF16},
                                                  {"<i4", DType::kI32},
                                                  {"<u4", DType::kU32},
                                                  {"<f4", DType::kF32},
                                                  {"<i8", DType::kI64},
                                                  {"<u8", DType::kU64},
                                                  {"<f8", DType::kF64}}) {
    const std::string data(DTypeBits(dtype) / 8, '\0');
    const auto array = Parse(File(Header(descr, "()"), data));
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_EQ(array->dtype, dtype) << descr;
  }
}

TEST(NpyTest, HeadersMayBeWrittenOtherwise) {
  const std::string data = "\1\2";
  for (const char* header :
       {"{\"shape\":(2,),\"descr\":\"|u1\",\"fortran_order\":False}",
        " { 'descr' : '|u1' , 'fortran_order' : False , 'shape' : (2L,) } \n",
        "{'descr':'|u1','fortran_order':False,'shape':(1,2,1,),}",
        "{'descr':'|u1','fortran_order':False,'shape':(2)}"}) {
    EXPECT_TRUE(Parse(File(header, data)).ok()) << header;
  }
}

TEST(NpyTest, EmptyArraysAreArrays) {
  const std::string bytes = File(Header("<f4", "(0, 7)"), "");
  const auto array = Parse(bytes);
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(array->count(), 0);
}

TEST(NpyTest, BytesThatEndEarlyAreDataLoss) {
  for (int version = 1; version <= 2; ++version) {
    const std::string bytes = File(Header("<f4", "(2,)"), "12345678", version);
    ASSERT_TRUE(Parse(bytes).ok());
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_EQ(Parse(bytes.substr(0, size)).status().code(),
                StatusCode::kDataLoss)
          << size;
    }
  }
}

TEST(NpyTest, BytesAfterTheEndAreRefused) {
  ExpectError(File(Header("|u1", "(2,)"), "123"), StatusCode::kInvalidArgument,
              "1 bytes after the end of the array [2]");
}

TEST(NpyTest, OtherFilesAndVersionsAreRefused) {
  ExpectError("PK\3\4", StatusCode::kInvalidArgument, "\\x93NUMPY");
  ExpectError(File(Header("|u1", "()"), "1", 4), StatusCode::kInvalidArgument,
              "version 4");
  ExpectError(File(Header("|u1", "()"), "1", 0), StatusCode::kInvalidArgument,
              "version 0");
  ExpectError(std::string("\x93NUMPY\2\0\xff\xff\xff\xff", 12),
              StatusCode::kInvalidArgument,
              "the header's size is 4294967295 bytes; the limit is 65536");
}

TEST(NpyTest, TypesThatAreNoPlainNumbersAreRefused) {
  ExpectInvalid(Header("|O", "(2,)"), "pickles");
  ExpectInvalid(Header(">f4", "(2,)"), "big-endian");
  ExpectInvalid(Header("<c8", "(2,)"), "is none of");
  ExpectInvalid(Header("<U3", "(2,)"), "is none of");
  ExpectInvalid(Header("|f4", "(2,)"), "is none of");
  ExpectInvalid(Header("<f16", "(2,)"), "is none of");
  ExpectInvalid(Header("", "(2,)"), "is none of");
  ExpectInvalid("{'descr': [('a', '<f4')], 'shape': ()}", "structured");
}

TEST(NpyTest, FortranOrderIsRefused) {
  ExpectInvalid("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3)}",
                "numpy.ascontiguousarray");
}

TEST(NpyTest, ShapesMustBeSizes) {
  ExpectInvalid(Header("<f4", "(-1,)"), "where a size is expected");
  ExpectInvalid(Header("<f4", "(1.5,)"), "expected");
  ExpectInvalid(Header("<f4", "(2 3)"), "expected");
  ExpectInvalid(Header("<f4", "[2]"), "expected");
  ExpectInvalid(Header("<f4", "(2, (3,))"), "expected");
  ExpectInvalid(Header("<f4", "(9223372036854775808,)"), "2^63 - 1");
  ExpectInvalid(Header("<f4", "(4294967296, 4294967296)"), "overflows");
  std::string ones;
  for (int i = 0; i < 33; ++i) ones += "1,";
  ExpectInvalid(Header("|u1", "(" + ones + ")"),
                "33 dimensions; the limit is 32");
}

TEST(NpyTest, HeadersMustBeWhole) {
  ExpectInvalid("", "expected");
  ExpectInvalid("{", "expected");
  ExpectInvalid("{}", "no 'descr'");
  ExpectInvalid("{'descr': '<f4'}", "no 'fortran_order'");
  ExpectInvalid("{'descr': '<f4', 'fortran_order': False}", "no 'shape'");
  ExpectInvalid("{'descr': '<f4', 'descr': '<f4'}", "'descr' stands twice");
  ExpectInvalid("{'x': 1}", "unknown key `x`");
  ExpectInvalid("{'descr: 1}", "a whole string");
  ExpectInvalid("{'fortran_order': 0}", "True or False");
  ExpectInvalid(Header("<f4", "()") + "__import__('os')", "the end of");
}

TEST(NpyTest, WhatIsWrittenReadsBackAligned) {
  for (const auto& shape :
       std::vector<std::vector<int64_t>>{{}, {3}, {2, 3}, {0}, {1, 2, 3, 4}}) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(0.5f * i);
    const std::string bytes = SerializeNpy(shape, values);
    EXPECT_EQ((bytes.size() - 4 * values.size()) % 64, 0u);
    const auto array = Parse(bytes);
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_EQ(array->shape, shape);
    EXPECT_EQ(*ToFloats("x", *array), values);
  }
}

}  // namespace
}  // namespace recurve
