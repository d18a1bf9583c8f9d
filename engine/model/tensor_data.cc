#include "engine/model/tensor_data.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/status.h"

namespace recurve {
namespace {

static_assert(std::endian::native == std::endian::little,
              "tensors are read and written as they stand in memory");

// So that sizes in bits fit an int64_t, whatever the type.
constexpr int64_t kMaxElements = int64_t{1} << 56;

struct DTypeInfo {
  absl::string_view name;
  int64_t bits;
};

DTypeInfo Info(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return {"BOOL", 8};
    case DType::kU8:
      return {"U8", 8};
    case DType::kI8:
      return {"I8", 8};
    case DType::kI16:
      return {"I16", 16};
    case DType::kU16:
      return {"U16", 16};
    case DType::kI32:
      return {"I32", 32};
    case DType::kU32:
      return {"U32", 32};
    case DType::kI64:
      return {"I64", 64};
    case DType::kU64:
      return {"U64", 64};
    case DType::kF16:
      return {"F16", 16};
    case DType::kBF16:
      return {"BF16", 16};
    case DType::kF32:
      return {"F32", 32};
    case DType::kF64:
      return {"F64", 64};
    case DType::kC64:
      return {"C64", 64};
    case DType::kF8E5M2:
      return {"F8_E5M2", 8};
    case DType::kF8E4M3:
      return {"F8_E4M3", 8};
    case DType::kF8E8M0:
      return {"F8_E8M0", 8};
    case DType::kF6E2M3:
      return {"F6_E2M3", 6};
    case DType::kF6E3M2:
      return {"F6_E3M2", 6};
    case DType::kF4:
      return {"F4", 4};
  }
  return {"?", 0};
}

template <typename T>
std::vector<T> Elements(const TensorView& tensor) {
  std::vector<T> elements(tensor.bytes.size() / sizeof(T));
  if (!elements.empty()) {
    std::memcpy(elements.data(), tensor.bytes.data(), tensor.bytes.size());
  }
  return elements;
}

template <typename To, typename From>
std::vector<To> Widened(const TensorView& tensor) {
  const std::vector<From> elements = Elements<From>(tensor);
  return std::vector<To>(elements.begin(), elements.end());
}

float FromHalf(uint16_t half) {
  const uint32_t sign = uint32_t{half} >> 15 << 31;
  const uint32_t exponent = half >> 10 & 0x1f;
  const uint32_t mantissa = half & 0x3ff;
  if (exponent == 0) {  // zero and subnormals: steps of 2^-24
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 0x1f ? 0xff : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
}

float FromBFloat16(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

std::vector<float> FromSixteenBits(const TensorView& tensor,
                                   float (*convert)(uint16_t)) {
  std::vector<float> values;
  values.reserve(tensor.bytes.size() / 2);
  for (const uint16_t bits : Elements<uint16_t>(tensor)) {
    values.push_back(convert(bits));
  }
  return values;
}

absl::StatusOr<std::vector<float>> Rounded(absl::string_view name,
                                           const TensorView& tensor) {
  std::vector<float> values;
  values.reserve(tensor.bytes.size() / 8);
  for (const double wide : Elements<double>(tensor)) {
    const float value = static_cast<float>(wide);
    if (std::isinf(value) && std::isfinite(wide)) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", QuotedName(name), ": element ", values.size(),
                       " is ", wide, ", too large for float32"));
    }
    values.push_back(value);
  }
  return values;
}

absl::Status WrongType(absl::string_view name, const TensorView& tensor,
                       absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", QuotedName(name), " is ", DTypeName(tensor.dtype),
                   "; expected ", expected));
}

}  // namespace

absl::string_view DTypeName(DType dtype) { return Info(dtype).name; }

int64_t DTypeBits(DType dtype) { return Info(dtype).bits; }

int64_t TensorView::count() const {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

std::string ShapeString(absl::Span<const int64_t> shape) {
  constexpr size_t kShown = 16;
  return absl::StrCat("[", absl::StrJoin(shape.subspan(0, kShown), ", "),
                      shape.size() > kShown ? ", ...]" : "]");
}

bool FindDType(absl::string_view name, DType* dtype) {
  for (int i = 0; i <= static_cast<int>(DType::kF4); ++i) {
    *dtype = static_cast<DType>(i);
    if (DTypeName(*dtype) == name) return true;
  }
  return false;
}

absl::StatusOr<int64_t> ByteSize(absl::string_view name, DType dtype,
                                 absl::Span<const int64_t> shape) {
  int64_t count = 1;  // of elements, were no size 0
  bool empty = false;
  for (const int64_t size : shape) {
    empty = empty || size == 0;
    if (__builtin_mul_overflow(count, std::max<int64_t>(size, 1), &count) ||
        count > kMaxElements) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", QuotedName(name), ": the size of shape ",
                       ShapeString(shape), " overflows"));
    }
  }
  const int64_t bits = empty ? 0 : count * Info(dtype).bits;
  if (bits % 8 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", QuotedName(name), ": ", DTypeName(dtype), " ",
                     ShapeString(shape), " does not fill whole bytes"));
  }
  return bits / 8;
}

std::string QuotedName(absl::string_view name) {
  constexpr size_t kShown = 120;
  return absl::StrCat("`", absl::CEscape(name.substr(0, kShown)),
                      name.size() > kShown ? "...`" : "`");
}

absl::StatusOr<std::vector<float>> ToFloats(absl::string_view name,
                                            const TensorView& tensor) {
  switch (tensor.dtype) {
    case DType::kF16:
      return FromSixteenBits(tensor, FromHalf);
    case DType::kBF16:
      return FromSixteenBits(tensor, FromBFloat16);
    case DType::kF32:
      return Elements<float>(tensor);
    case DType::kF64:
      return Rounded(name, tensor);
    default:
      return WrongType(name, tensor, "F16, BF16, F32 or F64");
  }
}

absl::StatusOr<std::vector<double>> ToDoubles(absl::string_view name,
                                              const TensorView& tensor) {
  if (tensor.dtype == DType::kF64) return Elements<double>(tensor);
  ASSIGN_OR_RETURN(const std::vector<float> floats, ToFloats(name, tensor));
  return std::vector<double>(floats.begin(), floats.end());
}

absl::StatusOr<std::vector<int64_t>> ToIntegers(absl::string_view name,
                                                const TensorView& tensor) {
  switch (tensor.dtype) {
    case DType::kBool:
    case DType::kU8:
      return Widened<int64_t, uint8_t>(tensor);
    case DType::kI8:
      return Widened<int64_t, int8_t>(tensor);
    case DType::kI16:
      return Widened<int64_t, int16_t>(tensor);
    case DType::kU16:
      return Widened<int64_t, uint16_t>(tensor);
    case DType::kI32:
      return Widened<int64_t, int32_t>(tensor);
    case DType::kU32:
      return Widened<int64_t, uint32_t>(tensor);
    case DType::kI64:
      return Elements<int64_t>(tensor);
    default:
      return WrongType(name, tensor, "BOOL or an integer of at most 63 bits");
  }
}

TensorMap Views(const FloatTensorMap& tensors) {
  TensorMap views;
  for (const auto& [name, tensor] : tensors) {
    views[name] = {DType::kF32,
                   tensor.shape,
                   {reinterpret_cast<const uint8_t*>(tensor.values.data()),
                    tensor.values.size() * sizeof(float)}};
  }
  return views;
}

}  // namespace recurve
