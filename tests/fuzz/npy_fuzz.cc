// An npy file: an array that is read is the rest of the bytes, no more, no
// less.

#include <cstddef>
#include <cstdint>

#include "engine/data/npy.h"
#include "tests/fuzz/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto array = recurve::ParseNpy({data, size});
  if (!array.ok()) return 0;
  FUZZ_CHECK(array->bytes.data() + array->bytes.size() == data + size);
  FUZZ_CHECK(array->count() * recurve::DTypeBits(array->dtype) ==
             8 * static_cast<int64_t>(array->bytes.size()));
  const auto floats = recurve::ToFloats("x", *array);
  if (!floats.ok()) return 0;
  FUZZ_CHECK(static_cast<int64_t>(floats->size()) == array->count());

  const std::string text = recurve::SerializeNpy(array->shape, *floats);
  const auto again = recurve::ParseNpy(
      {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  FUZZ_CHECK(again.ok() && again->shape == array->shape);
  return 0;
}
