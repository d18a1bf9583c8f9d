#include "engine/train/gradient_exchange.h"

#include <algorithm>
#include <cassert>

#include "absl/container/inlined_vector.h"
#include "engine/schedule/gradient_tree.h"
#include "kernels/status.h"

namespace recurve {
namespace {

// Devices, or sums, that are listed without an allocation.
constexpr int kInlined = 32;

}  // namespace

GradientExchange::GradientExchange(Backend& backend, int64_t count, int rank,
                                   int world_size)
    : backend_(backend),
      rank_(rank),
      offsets_(ShardOffsets(count, world_size)) {}

absl::Status GradientExchange::Reserve(int64_t num_pieces) {
  if (offsets_.size() == 2) return absl::OkStatus();  // one device
  return pieces_.Reserve(backend_, num_pieces * shard().size());
}

absl::StatusOr<float*> GradientExchange::ReduceShard(
    Communicator& communicator, int64_t num_micro_batches,
    absl::Span<const std::vector<Range>> subtrees,
    absl::Span<float* const> partials) {
  assert(partials.size() == subtrees[rank_].size());
  if (subtrees.size() == 1) return partials[0];  // the root
  int64_t count = 0;
  for (const auto& of_rank : subtrees) count += of_rank.size();
  RETURN_IF_ERROR(Reserve(count));
  RETURN_IF_ERROR(ExchangePieces(communicator, subtrees, partials));
  return SumPieces(num_micro_batches, subtrees);
}

// In round k every rank deals out its sum over its subtree k, if it has one.
absl::Status GradientExchange::ExchangePieces(
    Communicator& communicator, absl::Span<const std::vector<Range>> subtrees,
    absl::Span<float* const> partials) {
  const size_t world_size = subtrees.size();
  size_t rounds = 0;
  for (const auto& of_rank : subtrees) {
    rounds = std::max(rounds, of_rank.size());
  }
  for (size_t k = 0; k < rounds; ++k) {
    absl::InlinedVector<Communicator::Send, kInlined> sends(world_size);
    absl::InlinedVector<Communicator::Receive, kInlined> receives(world_size);
    int64_t first_piece = 0;  // of rank r
    for (size_t r = 0; r < world_size; ++r) {
      if (k < partials.size()) {
        sends[r] = {partials[k] + offsets_[r], offsets_[r + 1] - offsets_[r]};
      }
      if (k < subtrees[r].size()) {
        receives[r] = {piece(first_piece + k), shard().size()};
      }
      first_piece += subtrees[r].size();
    }
    RETURN_IF_ERROR(communicator.Exchange(backend_, sends, receives));
  }
  return absl::OkStatus();
}

absl::StatusOr<float*> GradientExchange::SumPieces(
    int64_t num_micro_batches, absl::Span<const std::vector<Range>> subtrees) {
  TreeFold fold(num_micro_batches);
  absl::InlinedVector<float*, kInlined> stack;
  int64_t next_piece = 0;
  for (const auto& of_rank : subtrees) {
    for (const Range subtree : of_rank) {
      stack.push_back(piece(next_piece++));
      for (int additions = fold.Push(subtree); additions > 0; --additions) {
        const float* top = stack.back();
        stack.pop_back();
        RETURN_IF_ERROR(backend_.Add(stack.back(), top, shard().size()));
      }
    }
  }
  assert(stack.size() == 1);
  return stack[0];
}

absl::Status GradientExchange::Gather(Communicator& communicator,
                                      const float* shard_sum, float* sum) {
  float* own = sum + shard().begin;
  if (own != shard_sum) {
    RETURN_IF_ERROR(backend_.Copy(
        own, shard_sum, shard().size() * static_cast<int64_t>(sizeof(float))));
  }
  if (offsets_.size() == 2) return absl::OkStatus();  // one device
  return communicator.AllGather(backend_, sum, offsets_);
}

}  // namespace recurve
