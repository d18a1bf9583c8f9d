// Bytes that end with the SHA-256 of those before it.
#ifndef RECURVE_ENGINE_SERVE_SEALED_BYTES_H_
#define RECURVE_ENGINE_SERVE_SEALED_BYTES_H_

#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>

#include "absl/base/config.h"
#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"
#include "engine/base/sha256.h"

#ifndef ABSL_IS_LITTLE_ENDIAN
#error "numbers in files are little-endian, and so must this host be"
#endif

namespace recurve {

inline constexpr size_t kSealBytes = 32;

// In 32 bytes.
inline std::string RawSha256(absl::string_view bytes) {
  return absl::HexStringToBytes(Sha256Hex(bytes));
}

inline std::string Seal(std::string bytes) { return bytes + RawSha256(bytes); }

// What was sealed; absent if these bytes are not as they were.
inline std::optional<absl::string_view> Unseal(absl::string_view bytes) {
  if (bytes.size() < kSealBytes) return std::nullopt;
  const absl::string_view inside = bytes.substr(0, bytes.size() - kSealBytes);
  if (bytes.substr(inside.size()) != RawSha256(inside)) return std::nullopt;
  return inside;
}

// As it lies in memory: T has no padding and no pointers.
template <typename T>
absl::string_view BytesOf(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const char*>(&value), sizeof(T)};
}

// The first `count` bytes, which `bytes` then lacks. REQUIRES: it has as many.
inline absl::string_view TakeBytes(absl::string_view& bytes, size_t count) {
  const absl::string_view taken = bytes.substr(0, count);
  bytes.remove_prefix(count);
  return taken;
}

template <typename T>
T Take(absl::string_view& bytes) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, TakeBytes(bytes, sizeof(T)).data(), sizeof(T));
  return value;
}

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_SEALED_BYTES_H_
