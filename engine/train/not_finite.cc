#include "engine/train/not_finite.h"

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace recurve {
namespace {

constexpr char kPayload[] = "recurve/not-finite";

// ", sequences 1, 4"
std::string Sequences(const std::vector<int64_t>& sequences) {
  if (sequences.empty()) return "";
  const bool all = sequences.size() < kMaxNotFiniteSequences;
  return absl::StrCat(sequences.size() == 1 ? ", sequence " : ", sequences ",
                      absl::StrJoin(sequences, ", "),
                      all ? "" : " and perhaps more");
}

}  // namespace

// The payload is four lines: step, what, layer, sequences.
absl::Status NotFiniteError(const NotFinite& where) {
  absl::Status status = absl::FailedPreconditionError(
      absl::StrCat("the ", where.what, " is not finite in optimizer step ",
                   where.step, ", first in ", where.layer,
                   Sequences(where.sequences), "; nothing was changed"));
  status.SetPayload(
      kPayload,
      absl::Cord(absl::StrCat(where.step, "\n", where.what, "\n", where.layer,
                              "\n", absl::StrJoin(where.sequences, ","))));
  return status;
}

std::optional<NotFinite> GetNotFinite(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload) return std::nullopt;
  const std::vector<std::string> lines =
      absl::StrSplit(std::string(*payload), '\n');
  NotFinite where;
  if (lines.size() != 4 || !absl::SimpleAtoi(lines[0], &where.step)) {
    return std::nullopt;
  }
  where.what = lines[1];
  where.layer = lines[2];
  for (const absl::string_view index :
       absl::StrSplit(lines[3], ',', absl::SkipEmpty())) {
    if (!absl::SimpleAtoi(index, &where.sequences.emplace_back())) {
      return std::nullopt;
    }
  }
  return where;
}

}  // namespace recurve
