// Passing errors up. Abseil's own macros are not in Debian 12.
#ifndef RECURVE_KERNELS_STATUS_H_
#define RECURVE_KERNELS_STATUS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Returns from the enclosing function if `expression`, a Status, is an error.
#define RETURN_IF_ERROR(expression)                                         \
  do {                                                                      \
    if (absl::Status recurve_status = (expression); !recurve_status.ok()) { \
      return recurve_status;                                                \
    }                                                                       \
  } while (false)

// ASSIGN_OR_RETURN(auto x, F()): x is the value of F(), a StatusOr; its error
// is returned.
#define ASSIGN_OR_RETURN(declaration, expression)                        \
  RECURVE_ASSIGN_OR_RETURN(RECURVE_CONCAT(recurve_status_or_, __LINE__), \
                           declaration, expression)
#define RECURVE_ASSIGN_OR_RETURN(status_or, declaration, expression) \
  auto status_or = (expression);                                     \
  if (!status_or.ok()) return std::move(status_or).status();         \
  declaration = *std::move(status_or)
#define RECURVE_CONCAT(a, b) RECURVE_CONCAT_INNER(a, b)
#define RECURVE_CONCAT_INNER(a, b) a##b

#endif  // RECURVE_KERNELS_STATUS_H_
