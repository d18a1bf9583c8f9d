#include "engine/model/tensor_data.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "gtest/gtest.h"

namespace recurve {
namespace {

template <typename T>
TensorView View(DType dtype, const std::vector<T>& elements) {
  return {dtype,
          {static_cast<int64_t>(elements.size())},
          {reinterpret_cast<const uint8_t*>(elements.data()),
           elements.size() * sizeof(T)}};
}

TEST(TensorDataTest, HalvesBecomeTheSameNumbers) {
  const std::vector<uint16_t> bits = {0x0000, 0x8000, 0x3c00, 0xc000,
                                      0x7bff, 0x0400, 0x0001, 0x83ff,
                                      0x7c00, 0xfc00, 0x3555};
  const std::vector<float> expected = {
      0.0f,     -0.0f,     1.0f,           -2.0f,
      65504.0f, 0x1p-14f,  0x1p-24f,       -1023 * 0x1p-24f,
      INFINITY, -INFINITY, 0.333251953125f};
  const std::vector<float> values = *ToFloats("x", View(DType::kF16, bits));
  EXPECT_EQ(values, expected);
  EXPECT_TRUE(std::signbit(values[1]));
  EXPECT_TRUE(
      std::isnan((*ToFloats("x", View<uint16_t>(DType::kF16, {0x7e00})))[0]));
}

TEST(TensorDataTest, BFloat16IsTheUpperHalfOfFloat32) {
  const std::vector<uint16_t> bits = {0x3f80, 0xc0a0, 0x0000, 0x7f80, 0x0001};
  const std::vector<float> expected = {1.0f, -5.0f, 0.0f, INFINITY, 0x1p-133f};
  EXPECT_EQ(*ToFloats("x", View(DType::kBF16, bits)), expected);
}

TEST(TensorDataTest, DoublesRoundToTheNearestFloat) {
  const std::vector<double> wide = {0.1, 1e-60, -3.0, INFINITY};
  const std::vector<float> expected = {0.1f, 0.0f, -3.0f, INFINITY};
  EXPECT_EQ(*ToFloats("x", View(DType::kF64, wide)), expected);
  EXPECT_EQ(*ToDoubles("x", View(DType::kF64, wide)), wide);
}

TEST(TensorDataTest, ADoubleTooLargeForFloatIsRefused) {
  const std::vector<double> wide = {1.0, -1e39};
  const absl::Status status = ToFloats("w", View(DType::kF64, wide)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "tensor `w`: element 1 is -1e+39, too large for float32");
}

TEST(TensorDataTest, IntegersKeepTheirSigns) {
  using Integers = std::vector<int64_t>;
  EXPECT_EQ(*ToIntegers("x", View<uint8_t>(DType::kU8, {0, 255})),
            (Integers{0, 255}));
  EXPECT_EQ(*ToIntegers("x", View<int8_t>(DType::kI8, {-128, 127})),
            (Integers{-128, 127}));
  EXPECT_EQ(*ToIntegers("x", View<int16_t>(DType::kI16, {-32768})),
            (Integers{-32768}));
  EXPECT_EQ(*ToIntegers("x", View<uint16_t>(DType::kU16, {65535})),
            (Integers{65535}));
  EXPECT_EQ(*ToIntegers("x", View<int32_t>(DType::kI32, {-7})), (Integers{-7}));
  EXPECT_EQ(*ToIntegers("x", View<uint32_t>(DType::kU32, {4294967295u})),
            (Integers{4294967295}));
  EXPECT_EQ(*ToIntegers("x", View<int64_t>(DType::kI64, {INT64_MIN})),
            (Integers{INT64_MIN}));
  EXPECT_FALSE(ToIntegers("x", View<uint64_t>(DType::kU64, {1})).ok());
}

TEST(TensorDataTest, TheWrongKindOfTypeIsNamed) {
  const absl::Status status =
      ToFloats("ids", View<int64_t>(DType::kI64, {1})).status();
  EXPECT_EQ(status.message(),
            "tensor `ids` is I64; expected F16, BF16, F32 or F64");
  EXPECT_FALSE(ToIntegers("x", View<float>(DType::kF32, {1})).ok());
}

TEST(TensorDataTest, BytesAreReadFromAnyAddress) {
  std::vector<uint8_t> bytes(9);
  const float values[2] = {1.5f, -2.5f};
  std::memcpy(bytes.data() + 1, values, 8);
  const TensorView tensor{DType::kF32, {2}, {bytes.data() + 1, 8}};
  EXPECT_EQ(*ToFloats("x", tensor), (std::vector<float>{1.5f, -2.5f}));
}

TEST(TensorDataTest, ByteSizesOfWholeAndPartialBytes) {
  EXPECT_EQ(*ByteSize("x", DType::kF32, {2, 3}), 24);
  EXPECT_EQ(*ByteSize("x", DType::kF64, {}), 8);
  EXPECT_EQ(*ByteSize("x", DType::kF4, {6}), 3);
  EXPECT_EQ(*ByteSize("x", DType::kF6E2M3, {4}), 3);
  EXPECT_EQ(*ByteSize("x", DType::kU8, {0, 5}), 0);
  EXPECT_FALSE(ByteSize("x", DType::kF4, {3}).ok());
  EXPECT_TRUE(ByteSize("x", DType::kU8, {1 << 30, 1 << 26}).ok());
  EXPECT_FALSE(ByteSize("x", DType::kU8, {1 << 30, 1 << 26, 2}).ok());
  EXPECT_FALSE(ByteSize("x", DType::kU8, {0, 1 << 30, 1 << 30}).ok());
}

TEST(TensorDataTest, NamesInMessagesAreShortAndPrintable) {
  EXPECT_EQ(QuotedName("a.b"), "`a.b`");
  EXPECT_EQ(QuotedName("a\n\xff"), "`a\\n\\377`");
  EXPECT_EQ(QuotedName(std::string(500, 'x')).size(), 120 + 5);
}

}  // namespace
}  // namespace recurve
