#include "engine/data/npy.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "kernels/status.h"

namespace recurve {
namespace {

constexpr absl::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlignment = 64;  // of the data, as NumPy writes it

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("npy: ", parts...));
}

template <typename... Parts>
absl::Status Truncated(const Parts&... parts) {
  return absl::DataLossError(
      absl::StrCat("npy: the bytes end early: ", parts...));
}

// What the header says, each as far as it was there.
struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;
};

// Reads the Python literal that the header is:
//   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderParser {
 public:
  explicit HeaderParser(absl::string_view text) : rest_(text) {}

  absl::StatusOr<Header> Parse() {
    RETURN_IF_ERROR(Expect("{"));
    while (!Take("}")) {
      RETURN_IF_ERROR(Entry());
      if (Take(",")) continue;
      RETURN_IF_ERROR(Expect("}"));
      break;
    }
    SkipSpace();
    if (!rest_.empty()) return Unexpected("the end of the header");
    if (!header_.descr) return Invalid("the header has no 'descr'");
    if (!header_.fortran_order)
      return Invalid("the header has no 'fortran_order'");
    if (!header_.shape) return Invalid("the header has no 'shape'");
    return std::move(header_);
  }

 private:
  void SkipSpace() { rest_ = absl::StripLeadingAsciiWhitespace(rest_); }

  bool Take(absl::string_view token) {
    SkipSpace();
    if (!absl::StartsWith(rest_, token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  absl::Status Unexpected(absl::string_view expected) const {
    return Invalid("the header has ", QuotedName(rest_.substr(0, 20)),
                   " where ", expected, " is expected");
  }

  absl::Status Expect(absl::string_view token) {
    return Take(token) ? absl::OkStatus() : Unexpected(token);
  }

  // Without escapes: no name or type needs one.
  absl::StatusOr<std::string> String() {
    SkipSpace();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) {
      return Unexpected("a string");
    }
    const size_t end = rest_.find(rest_[0], 1);
    if (end == absl::string_view::npos) return Unexpected("a whole string");
    const std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }

  absl::StatusOr<bool> Boolean() {
    if (Take("True")) return true;
    if (Take("False")) return false;
    return Unexpected("True or False");
  }

  absl::StatusOr<int64_t> Size() {
    SkipSpace();
    if (rest_.empty() || !absl::ascii_isdigit(rest_[0])) {
      return Unexpected("a size");
    }
    const absl::string_view text = rest_;
    int64_t size = 0;
    while (!rest_.empty() && absl::ascii_isdigit(rest_[0])) {
      if (__builtin_mul_overflow(size, 10, &size) ||
          __builtin_add_overflow(size, rest_[0] - '0', &size)) {
        return Invalid("the size ", QuotedName(text.substr(0, 30)),
                       " is over the limit of 2^63 - 1");
      }
      rest_.remove_prefix(1);
    }
    Take("L");  // Python 2 wrote its long integers so
    return size;
  }

  absl::StatusOr<std::vector<int64_t>> Shape() {
    RETURN_IF_ERROR(Expect("("));
    std::vector<int64_t> shape;
    while (!Take(")")) {
      ASSIGN_OR_RETURN(const int64_t size, Size());
      shape.push_back(size);
      if (Take(",")) continue;
      RETURN_IF_ERROR(Expect(")"));
      break;
    }
    return shape;
  }

  template <typename Value>
  absl::Status Set(absl::string_view key, std::optional<Value>& field,
                   absl::StatusOr<Value> value) {
    if (!value.ok()) return value.status();
    if (field) return Invalid("'", key, "' stands twice in the header");
    field = *std::move(value);
    return absl::OkStatus();
  }

  absl::Status Entry() {
    ASSIGN_OR_RETURN(const std::string key, String());
    RETURN_IF_ERROR(Expect(":"));
    if (key == "fortran_order") {
      return Set(key, header_.fortran_order, Boolean());
    }
    if (key == "shape") return Set(key, header_.shape, Shape());
    if (key != "descr") return Invalid("unknown key ", QuotedName(key));
    if (Take("[")) {
      return Invalid("a structured type; only plain numbers can be read");
    }
    return Set(key, header_.descr, String());
  }

  absl::string_view rest_;
  Header header_;
};

// The header's bytes, which stand between its size and the data.
absl::StatusOr<absl::string_view> HeaderText(absl::string_view bytes) {
  const size_t known = std::min(bytes.size(), kMagic.size());
  if (bytes.substr(0, known) != kMagic.substr(0, known)) {
    return Invalid("the bytes do not begin with \\x93NUMPY");
  }
  if (bytes.size() < kMagic.size() + 2) return Truncated("no version");
  const int major = static_cast<uint8_t>(bytes[kMagic.size()]);
  if (major < 1 || major > 3) {
    return Invalid("version ", major, "; versions 1, 2 and 3 can be read");
  }
  const size_t size_bytes = major == 1 ? 2 : 4;
  const size_t begin = kMagic.size() + 2 + size_bytes;
  if (bytes.size() < begin) return Truncated("no header size");
  uint32_t size = 0;
  std::memcpy(&size, bytes.data() + kMagic.size() + 2, size_bytes);
  if (size > kMaxNpyHeaderBytes) {
    return Invalid("the header's size is ", size, " bytes; the limit is ",
                   kMaxNpyHeaderBytes);
  }
  if (size > bytes.size() - begin) {
    return Truncated("the header has ", size, " bytes, of which ",
                     bytes.size() - begin, " are there");
  }
  return bytes.substr(begin, size);
}

absl::StatusOr<DType> TypeOf(absl::string_view descr) {
  static constexpr std::pair<absl::string_view, DType> kTypes[] = {
      {"b1", DType::kBool}, {"i1", DType::kI8},  {"u1", DType::kU8},
      {"i2", DType::kI16},  {"u2", DType::kU16}, {"f2", DType::kF16},
      {"i4", DType::kI32},  {"u4", DType::kU32}, {"f4", DType::kF32},
      {"i8", DType::kI64},  {"u8", DType::kU64}, {"f8", DType::kF64}};
  if (absl::StrContains(descr, 'O')) {
    return Invalid("the type ", QuotedName(descr),
                   " is of Python objects (pickles), which are never read");
  }
  if (absl::StartsWith(descr, ">")) {
    return Invalid("the type ", QuotedName(descr),
                   " is big-endian; only little-endian can be read");
  }
  for (const auto& [name, dtype] : kTypes) {
    if (descr == absl::StrCat("<", name)) return dtype;
    if (name[1] == '1' && descr == absl::StrCat("|", name)) return dtype;
  }
  return Invalid("the type ", QuotedName(descr),
                 " is none of '|b1', '|i1', '|u1', '<i2', '<u2', '<f2', "
                 "'<i4', '<u4', '<f4', '<i8', '<u8', '<f8'");
}

}  // namespace

absl::StatusOr<TensorView> ParseNpy(absl::Span<const uint8_t> bytes) {
  const absl::string_view text(reinterpret_cast<const char*>(bytes.data()),
                               bytes.size());
  ASSIGN_OR_RETURN(const absl::string_view header_text, HeaderText(text));
  ASSIGN_OR_RETURN(Header header, HeaderParser(header_text).Parse());
  if (*header.fortran_order) {
    return Invalid(
        "the array is in Fortran order; save numpy.ascontiguousarray of it");
  }
  TensorView tensor;
  ASSIGN_OR_RETURN(tensor.dtype, TypeOf(*header.descr));
  tensor.shape = *std::move(header.shape);
  if (tensor.shape.size() > kMaxNpyDimensions) {
    return Invalid(tensor.shape.size(), " dimensions; the limit is ",
                   kMaxNpyDimensions);
  }
  ASSIGN_OR_RETURN(const int64_t size,
                   ByteSize("npy array", tensor.dtype, tensor.shape));

  tensor.bytes =
      bytes.subspan(static_cast<size_t>(header_text.end() - text.begin()));
  const int64_t available = static_cast<int64_t>(tensor.bytes.size());
  if (size > available) {
    return Truncated(ShapeString(tensor.shape), " takes ", size,
                     " bytes, of which ", available, " are there");
  }
  if (size < available) {
    return Invalid(available - size, " bytes after the end of the array ",
                   ShapeString(tensor.shape));
  }
  return tensor;
}

std::string SerializeNpy(absl::Span<const int64_t> shape,
                         absl::Span<const float> values) {
  const absl::string_view comma = shape.size() == 1 ? "," : "";
  std::string header =
      absl::StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': (",
                   absl::StrJoin(shape, ", "), comma, "), }");
  const size_t before = kMagic.size() + 4;  // version and size
  while ((before + header.size() + 1) % kAlignment != 0) header.push_back(' ');
  header.push_back('\n');

  const uint16_t size = static_cast<uint16_t>(header.size());
  std::string bytes(kMagic);
  bytes.append(
      {1, 0, static_cast<char>(size & 0xff), static_cast<char>(size >> 8)});
  bytes.append(header);
  bytes.append(reinterpret_cast<const char*>(values.data()),
               values.size() * sizeof(float));
  return bytes;
}

}  // namespace recurve
