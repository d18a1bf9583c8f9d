// A session's state as bytes that outlive the server and the model's version:
// docs/sessions.md has the format.
#ifndef RECURVE_ENGINE_SERVE_SESSION_SNAPSHOT_H_
#define RECURVE_ENGINE_SERVE_SESSION_SNAPSHOT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/model/model.h"
#include "engine/serve/model_version.h"

namespace recurve {

struct SessionSnapshot {
  std::string model_version;  // the name of the one it was of
  std::string shape;          // ShapeSignature of its model
  int64_t position = 0;  // rows that the session has had, <= kMaxSessionRows
  std::vector<float> carry;  // [carry_size], bit for bit
};

// 32 bytes: a hash of what a carry of this model consists of (cells, their
// channels and places, pooling). Models with the same may go on from each
// other's states, whatever their weights.
std::string ShapeSignature(const Model& model);

// REQUIRES: a shape of 32 bytes.
std::string SerializeSnapshot(const SessionSnapshot& snapshot);

// DataLoss says what is wrong with bytes that SerializeSnapshot did not write;
// takes no more memory than the bytes have.
absl::StatusOr<SessionSnapshot> ParseSnapshot(absl::string_view bytes);

// FailedPrecondition if a state of this shape cannot go on in this version, or
// no state can.
absl::Status CheckShape(absl::string_view shape, const ModelVersion& version);
// CheckShape of the snapshot; DataLoss if its carry has not the length that its
// shape says, or if it holds what no sequence goes on from: NaN, infinity, a
// count of pooled rows that is negative or above kMaxSessionRows.
absl::Status CheckFits(const SessionSnapshot& snapshot,
                       const ModelVersion& version);

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_SESSION_SNAPSHOT_H_
