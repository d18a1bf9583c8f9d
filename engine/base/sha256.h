// SHA-256, the checksum of every file that Recurve stores.
#ifndef RECURVE_ENGINE_BASE_SHA256_H_
#define RECURVE_ENGINE_BASE_SHA256_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace recurve {

// Of bytes that come in pieces.
class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&& other) noexcept;
  Sha256& operator=(Sha256&& other) noexcept;
  ~Sha256();

  void Update(absl::string_view bytes);
  // Lower-case hexadecimal. Once, at the end.
  std::string Finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string Sha256Hex(absl::string_view bytes);

}  // namespace recurve

#endif  // RECURVE_ENGINE_BASE_SHA256_H_
