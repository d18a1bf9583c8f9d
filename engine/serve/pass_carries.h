// The carries of a pass: from where they are into one matrix, and back.
#ifndef RECURVE_ENGINE_SERVE_PASS_CARRIES_H_
#define RECURVE_ENGINE_SERVE_PASS_CARRIES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/serve/state_pool.h"
#include "engine/serve/version_queue.h"
#include "kernels/backend.h"
#include "kernels/tensor.h"

namespace recurve {

// Those of states in the device's pool are copied on the device, the others go
// by way of the host. Belongs to the thread of a device and keeps its memory
// from pass to pass. Calls in the order given, once a pass.
class PassCarries {
 public:
  // Moves states into the pool that may be there, and packs what is in host
  // memory. A carry has `size` floats.
  absl::Status Pack(absl::Span<const TakenPart> parts, int64_t size,
                    StatePool& pool, Backend& backend);
  // Whether any sequence has a carry, before the pass or after it.
  bool any() const { return any_; }
  // [B, C] or empty: all zeros but for what Gather writes.
  absl::Span<const float> on_host() const { return on_host_; }
  // Writes the rows of states in the pool to a device matrix [B, C].
  absl::Status Gather(Matrix<float> to, Backend& backend);
  // Writes the carries after the pass, device [B, C], to where they are kept.
  absl::Status Keep(absl::Span<const TakenPart> parts,
                    Matrix<const float> after, Backend& backend);

 private:
  struct Pairs {
    std::shared_ptr<StateBlock> block;
    StateBlock::RowPairs rows;
  };

  static absl::Status Place(absl::Span<const TakenPart> parts, StatePool& pool,
                            Backend& backend);
  static void Add(std::vector<Pairs>& pairs, const CarriedState::Place& place,
                  int row, size_t i);

  bool any_ = false;
  std::vector<float> on_host_, after_;
  std::vector<Pairs> gathered_, scattered_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_PASS_CARRIES_H_
