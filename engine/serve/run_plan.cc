#include "engine/serve/run_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/schedule/serving_precision.h"
#include "engine/serve/executor_cache.h"
#include "kernels/status.h"

namespace recurve {
namespace {

struct Sequence {
  int64_t index = 0;
  int64_t rows = 0;
};

Sequence Longest(absl::Span<const int64_t> cu_seqlens) {
  Sequence longest;
  for (size_t b = 1; b < cu_seqlens.size(); ++b) {
    const int64_t rows = cu_seqlens[b] - cu_seqlens[b - 1];
    if (rows > longest.rows) longest = {static_cast<int64_t>(b) - 1, rows};
  }
  return longest;
}

int64_t Half(int64_t rows) { return (rows + 1) / 2; }

absl::Status CheckSomeServes(DevicePool& devices, Precision precision) {
  std::vector<DeviceSpec> specs;
  for (int rank = 0; rank < devices.size(); ++rank) {
    specs.push_back(devices.device(rank).spec());
  }
  return CheckServes(specs, precision);
}

// Where a run may go.
class Room {
 public:
  Room(DevicePool& devices, const RunLimits& limits,
       const ModelVersion& version, const HeldMemory* held)
      : devices_(devices),
        limits_(limits),
        owner_(MemoryOwner(version)),
        precision_(version.precision()),
        held_(held) {}

  std::vector<int> RanksFor(const MemoryPlan& memory) const {
    std::vector<int> ranks;
    if (memory.activations > limits_.max_arena_bytes) return ranks;
    for (int rank = 0; rank < devices_.size(); ++rank) {
      if (Holds(rank, memory)) ranks.push_back(rank);
    }
    return ranks;
  }

  // Whether a pass can be had whatever is trained meanwhile.
  bool IsKeptSomewhere(const MemoryPlan& memory) const {
    if (held_ != nullptr || RanksFor(memory).empty()) return false;
    for (int rank = 0; rank < devices_.size(); ++rank) {
      if (Serves(devices_.device(rank).spec(), precision_) &&
          memory.total() <= ledger(rank).serving_floor_bytes()) {
        return true;
      }
    }
    return false;
  }

  // Of what has no ranks.
  absl::Status Refusal(const MemoryPlan& memory) const {
    if (memory.activations > limits_.max_arena_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat(owner_, " needs ", memory.activations,
                       " bytes of activations for a pass, the limit is ",
                       limits_.max_arena_bytes));
    }
    if (held_ != nullptr) {
      return absl::ResourceExhaustedError(absl::StrCat(
          owner_, " needs ", memory.total(), " bytes, ",
          held_->reservation.plan().total(), " are reserved for it"));
    }
    int largest = 0;
    for (int rank = 1; rank < devices_.size(); ++rank) {
      if (ledger(rank).budget_bytes() > ledger(largest).budget_bytes()) {
        largest = rank;
      }
    }
    return ledger(largest).CheckFitsBudget(owner_, memory);
  }

 private:
  bool Holds(int rank, const MemoryPlan& memory) const {
    if (!Serves(devices_.device(rank).spec(), precision_)) return false;
    if (held_ == nullptr) {
      return ledger(rank).CheckFitsBudget(owner_, memory).ok();
    }
    return rank == held_->device &&
           memory.total() <= held_->reservation.plan().total();
  }
  const Ledger& ledger(int rank) const {
    return devices_.device(rank).ledger();
  }

  DevicePool& devices_;
  const RunLimits& limits_;
  const std::string owner_;
  const Precision precision_;
  const HeldMemory* const held_;
};

// The most rows, halved from `max_rows` on, whose pass `fits`; 1 if none does.
template <typename Fits>
int64_t MostRows(int64_t max_rows, const Fits& fits) {
  while (max_rows > 1 && !fits(max_rows)) max_rows = Half(max_rows);
  return max_rows;
}

// The inference plan that is enough on each of the devices that serve at the
// precision: that of them all where they are of one kind.
MemoryPlan PlanOfAny(DevicePool& devices, const Model& model,
                     Precision precision, BatchShape largest) {
  MemoryPlan any;
  for (int rank = 0; rank < devices.size(); ++rank) {
    const DeviceSpec& spec = devices.device(rank).spec();
    if (!Serves(spec, precision)) continue;
    const MemoryPlan plan = InferencePlan(model, largest, spec.kind, precision);
    any.weights = std::max(any.weights, plan.weights);
    any.activations = std::max(any.activations, plan.activations);
  }
  return any;
}

}  // namespace

MemoryPlan PassMemory(DevicePool& devices, const Model& model,
                      Precision precision, absl::Span<const int64_t> cu_seqlens,
                      int64_t max_rows) {
  const MemoryPlan memory =
      PlanOfAny(devices, model, precision, {max_rows, max_rows});
  const int64_t longest = Longest(cu_seqlens).rows;
  if (model.CutsInTime() || longest <= max_rows) return memory;
  const MemoryPlan uncut = PlanOfAny(devices, model, precision, {longest, 1});
  return uncut.total() > memory.total() ? uncut : memory;
}

std::vector<MemoryPlan> PassMemories(DevicePool& devices, const Model& model,
                                     absl::Span<const int64_t> cu_seqlens,
                                     const RunLimits& limits) {
  std::vector<MemoryPlan> memories;
  for (int64_t rows = limits.max_batch_rows;; rows = Half(rows)) {
    memories.push_back(
        PassMemory(devices, model, Precision::kFloat32, cu_seqlens, rows));
    if (rows <= 1) return memories;
  }
}

absl::StatusOr<RunPlan> PlanRun(DevicePool& devices, const RunLimits& limits,
                                const ModelVersion& version,
                                absl::Span<const int64_t> cu_seqlens,
                                int64_t call_rows, const HeldMemory* held) {
  const Model& model = *version.model;
  const Precision precision = version.precision();
  RETURN_IF_ERROR(CheckSomeServes(devices, precision));
  const Room room(devices, limits, version, held);
  const auto pass_memory = [&](int64_t rows) {
    return PassMemory(devices, model, precision, cu_seqlens, rows);
  };
  CutOptions options;
  options.in_time = model.CutsInTime();
  options.call_rows = call_rows;
  options.max_rows = MostRows(limits.max_batch_rows, [&](int64_t rows) {
    return room.IsKeptSomewhere(pass_memory(rows));
  });
  if (!room.IsKeptSomewhere(pass_memory(options.max_rows))) {
    options.max_rows = MostRows(limits.max_batch_rows, [&](int64_t rows) {
      return !room.RanksFor(PlanOfAny(devices, model, precision, {rows, rows}))
                  .empty();
    });
  }
  RunPlan plan;
  plan.max_rows = options.max_rows;
  plan.memory = pass_memory(options.max_rows);
  plan.ranks = room.RanksFor(plan.memory);
  if (!plan.ranks.empty()) {
    plan.chains = CutBatch(cu_seqlens, options);
    return plan;
  }
  const absl::Status refusal = room.Refusal(plan.memory);
  const Sequence longest = Longest(cu_seqlens);
  if (options.in_time || longest.rows <= options.max_rows) return refusal;
  return absl::ResourceExhaustedError(absl::StrCat(
      "sequence ", longest.index, " has ", longest.rows,
      " rows, which this model cannot take in parts: ", refusal.message()));
}

}  // namespace recurve
