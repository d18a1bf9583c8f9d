// How long a session may get.
#ifndef RECURVE_ENGINE_SERVE_SESSION_ROWS_H_
#define RECURVE_ENGINE_SERVE_SESSION_ROWS_H_

#include <cstdint>

namespace recurve {

// Rows that a session may have had. No client gets there row by row; half of
// what an int64_t holds, so that the rows of any request can be added.
inline constexpr int64_t kMaxSessionRows = int64_t{1} << 62;

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_SESSION_ROWS_H_
