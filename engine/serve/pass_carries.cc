#include "engine/serve/pass_carries.h"

#include <algorithm>

#include "engine/serve/host_rows.h"
#include "kernels/status.h"

namespace recurve {

absl::Status PassCarries::Pack(absl::Span<const TakenPart> parts, int64_t size,
                               StatePool& pool, Backend& backend) {
  any_ = false;
  on_host_.clear();
  gathered_.clear();
  // All before the first is looked up: who asks for memory may move others.
  RETURN_IF_ERROR(Place(parts, pool, backend));
  for (size_t i = 0; i < parts.size(); ++i) {
    const SequenceCarry& carry = parts[i].part.carry;
    any_ = any_ || carry.source != nullptr || carry.target != nullptr;
    if (carry.source == nullptr) continue;
    RETURN_IF_ERROR(carry.source->lost());
    const int row =
        carry.from_other ? carry.source->other() : carry.source->committed();
    const CarriedState::Place place = carry.source->place();
    if (place.block != nullptr) {
      Add(gathered_, place, row, i);
      continue;
    }
    on_host_.resize(parts.size() * size);
    const float* const from = carry.source->row(row);
    std::copy(from, from + size,
              on_host_.begin() + static_cast<int64_t>(i) * size);
  }
  return absl::OkStatus();
}

// All are of one model and so of one size: without room for one there is none
// for the next.
absl::Status PassCarries::Place(absl::Span<const TakenPart> parts,
                                StatePool& pool, Backend& backend) {
  for (const TakenPart& part : parts) {
    const auto& state = part.part.carry.target;
    if (state == nullptr || state->kind() != CarriedState::Kind::kPooled ||
        state->device().has_value() || !state->lost().ok()) {
      continue;
    }
    ASSIGN_OR_RETURN(const bool is_there, pool.Place(*state, backend));
    if (!is_there) break;
  }
  return absl::OkStatus();
}

// A pass has few blocks, and neighbours are often of one.
void PassCarries::Add(std::vector<Pairs>& pairs,
                      const CarriedState::Place& place, int row, size_t i) {
  auto at = std::find_if(pairs.rbegin(), pairs.rend(), [&](const Pairs& other) {
    return other.block == place.block;
  });
  if (at == pairs.rend()) {
    pairs.push_back({place.block, {}});
    at = pairs.rbegin();
  }
  at->rows.block.push_back(2 * place.slot + row);
  at->rows.matrix.push_back(static_cast<int32_t>(i));
}

absl::Status PassCarries::Gather(Matrix<float> to, Backend& backend) {
  for (const Pairs& pairs : gathered_) {
    RETURN_IF_ERROR(pairs.block->Gather(pairs.rows, to, backend));
  }
  return absl::OkStatus();
}

absl::Status PassCarries::Keep(absl::Span<const TakenPart> parts,
                               Matrix<const float> after, Backend& backend) {
  scattered_.clear();
  after_.clear();
  for (size_t i = 0; i < parts.size(); ++i) {
    CarriedState* const target = parts[i].part.carry.target.get();
    if (target == nullptr) continue;
    target->BeginWrite();
    const CarriedState::Place place = target->place();
    if (place.block != nullptr) {
      Add(scattered_, place, target->other(), i);
      continue;
    }
    if (after_.empty()) {
      RETURN_IF_ERROR(OnHost(backend, after, after_).status());
    }
    const float* const from =
        after_.data() + static_cast<int64_t>(i) * after.cols;
    std::copy(from, from + after.cols, target->row(target->other()));
  }
  for (const Pairs& pairs : scattered_) {
    RETURN_IF_ERROR(pairs.block->Scatter(pairs.rows, after, backend));
  }
  gathered_.clear();
  scattered_.clear();
  return absl::OkStatus();
}

}  // namespace recurve
