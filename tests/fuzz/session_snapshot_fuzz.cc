// A session's snapshot, as sent and with the checksum made right, which the
// search would never find: what is read is written as the same bytes.

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "engine/serve/sealed_bytes.h"
#include "engine/serve/session_snapshot.h"
#include "tests/fuzz/check.h"

namespace recurve {
namespace {

void Check(absl::string_view bytes) {
  const auto snapshot = ParseSnapshot(bytes);
  if (!snapshot.ok()) {
    FUZZ_CHECK(!snapshot.status().message().empty());
    return;
  }
  FUZZ_CHECK(snapshot->position >= 0);
  FUZZ_CHECK(SerializeSnapshot(*snapshot) == bytes);
}

}  // namespace
}  // namespace recurve

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  recurve::Check(bytes);
  recurve::Check(recurve::Seal(std::string(bytes)));
  return 0;
}
