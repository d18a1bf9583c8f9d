// The error of a call whose loss or gradient is not finite: it says where.
#ifndef RECURVE_ENGINE_TRAIN_NOT_FINITE_H_
#define RECURVE_ENGINE_TRAIN_NOT_FINITE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace recurve {

inline constexpr size_t kMaxNotFiniteSequences = 16;

struct NotFinite {
  int64_t step = 0;  // the optimizer step that was under way, from 1
  std::string what;  // "loss", "state", "gradient"
  // Where it begins: "input embedding", "blocks[0].layer 1", "output", "loss".
  std::string layer;
  // Those concerned, by their index in the call, ascending: the first
  // kMaxNotFiniteSequences of them.
  std::vector<int64_t> sequences;
};

// FailedPrecondition whose message names all of it; nothing was changed.
absl::Status NotFiniteError(const NotFinite& where);

// What NotFiniteError has put into the status; none in other errors.
std::optional<NotFinite> GetNotFinite(const absl::Status& status);

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_NOT_FINITE_H_
