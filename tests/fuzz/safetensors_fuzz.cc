// A safetensors file: what is read is within the bytes, covers them, and comes
// back when it is written.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/model/safetensors.h"
#include "tests/fuzz/check.h"

namespace recurve {
namespace {

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

void CheckTensor(const std::string& name, const TensorView& tensor) {
  const int64_t bits = tensor.count() * DTypeBits(tensor.dtype);
  FUZZ_CHECK(bits == 8 * static_cast<int64_t>(tensor.bytes.size()));
  const auto integers = ToIntegers(name, tensor);
  const auto doubles = ToDoubles(name, tensor);
  FUZZ_CHECK(!integers.ok() || !doubles.ok());
  const int64_t count = integers.ok()  ? integers->size()
                        : doubles.ok() ? doubles->size()
                                       : tensor.count();
  FUZZ_CHECK(count == tensor.count());
}

void CheckRoundTrip(const Safetensors& file) {
  const auto text = SerializeSafetensors(file.tensors(), file.metadata());
  FUZZ_CHECK(text.ok());
  const auto again = Safetensors::Parse(Bytes(*text));
  FUZZ_CHECK(again.ok());
  FUZZ_CHECK(again->metadata() == file.metadata());
  FUZZ_CHECK(again->tensors().size() == file.tensors().size());
  for (const auto& [name, tensor] : file.tensors()) {
    const TensorView* other = again->Find(name);
    FUZZ_CHECK(other != nullptr && other->dtype == tensor.dtype);
    FUZZ_CHECK(other->shape == tensor.shape && other->bytes == tensor.bytes);
  }
}

}  // namespace
}  // namespace recurve

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = recurve::Safetensors::Parse({data, size});
  if (!file.ok()) return 0;
  size_t covered = 0;
  for (const auto& [name, tensor] : file->tensors()) {
    recurve::CheckTensor(name, tensor);
    covered += tensor.bytes.size();
  }
  FUZZ_CHECK(covered <= size);
  recurve::CheckRoundTrip(*file);
  return 0;
}
