// UTF-8, strictly: no overlong forms, no surrogates, nothing above U+10FFFF.
#ifndef RECURVE_ENGINE_DATA_UTF8_H_
#define RECURVE_ENGINE_DATA_UTF8_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace recurve {

// Bytes of the code point that `text` begins with; 0 if it is not valid there
// or `text` is empty.
size_t CodePointLength(absl::string_view text);

// Where the first invalid byte stands; npos if there is none.
size_t FindInvalidUtf8(absl::string_view text);

// The first code point of `text`, for messages: 'x' (U+0078), U+000A, or
// byte 0xFF where it is not valid.
std::string DescribeCharacter(absl::string_view text);

}  // namespace recurve

#endif  // RECURVE_ENGINE_DATA_UTF8_H_
