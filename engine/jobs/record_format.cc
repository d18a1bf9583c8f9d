#include "engine/jobs/record_format.h"

#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace recurve {
namespace {

// What each value of a byte does to the remainder, bits reflected.
constexpr std::array<uint32_t, 256> MakeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) {
      remainder = (remainder >> 1) ^ (remainder & 1 ? 0x82f63b78u : 0u);
    }
    table[byte] = remainder;
  }
  return table;
}

// A checksum of bytes that hold checksums themselves would be a weak one.
uint32_t Masked(uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

template <typename T>
std::string LittleEndian(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

}  // namespace

uint32_t Crc32c(absl::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = MakeTable();
  uint32_t remainder = ~0u;
  for (const char c : bytes) {
    remainder = (remainder >> 8) ^
                kTable[(remainder ^ static_cast<unsigned char>(c)) & 0xff];
  }
  return ~remainder;
}

std::string FramedRecord(absl::string_view bytes) {
  const std::string length = LittleEndian<uint64_t>(bytes.size());
  return absl::StrCat(length, LittleEndian(Masked(Crc32c(length))), bytes,
                      LittleEndian(Masked(Crc32c(bytes))));
}

}  // namespace recurve
