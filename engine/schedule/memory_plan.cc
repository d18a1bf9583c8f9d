#include "engine/schedule/memory_plan.h"

#include <algorithm>
#include <cassert>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/model/executor.h"
#include "engine/schedule/format_bytes.h"
#include "engine/schedule/gradient_tree.h"
#include "kernels/backend.h"
#include "kernels/cpu/backend.h"
#include "kernels/cuda/settings.h"

namespace recurve {
namespace {

constexpr int64_t kFloatBytes = sizeof(float);

int64_t WeightBytes(const Model& model) {
  return model.parameters().buffer_size() * kFloatBytes;
}

int64_t ArenaBytes(const Model& model, Mode mode, BatchShape shape,
                   bool packed = false) {
  if (shape.rows == 0 && shape.sequences == 0) return 0;
  return Executor::ArenaBytes(model, mode, shape.rows, shape.sequences, packed);
}

int64_t PackedWeightBytes(const Model& model, Precision precision) {
  return Executor::PackedBytes(model, [&](const ProjectionShape& projection) {
    return CpuPackedBytes(projection, precision);
  });
}

// Of one array of `count` floats: no array is smaller than an alignment unit.
int64_t ArrayBytes(int64_t count) {
  return std::max(count * kFloatBytes, kAlignment);
}

int64_t ShardSize(const Model& model, const TrainingShape& shape) {
  const std::vector<int64_t> offsets =
      ShardOffsets(model.parameters().buffer_size(), shape.world_size);
  return offsets[shape.rank + 1] - offsets[shape.rank];
}

int64_t GradientBytes(const Model& model, const TrainingShape& shape) {
  const int64_t shard = ShardSize(model, shape);
  int64_t bytes = shape.live_partials * WeightBytes(model);
  if (shape.world_size > 1) bytes += ArrayBytes(shape.exchange_pieces * shard);
  // The sum so far, and the same with the call under way.
  if (shape.accumulates) bytes += 2 * ArrayBytes(shard);
  return bytes;
}

}  // namespace

MemoryPlan operator+(const MemoryPlan& a, const MemoryPlan& b) {
  return {a.weights + b.weights,     a.gradients + b.gradients,
          a.optimizer + b.optimizer, a.activations + b.activations,
          a.workspace + b.workspace, a.sessions + b.sessions};
}

bool operator==(const MemoryPlan& a, const MemoryPlan& b) {
  return a.weights == b.weights && a.gradients == b.gradients &&
         a.optimizer == b.optimizer && a.activations == b.activations &&
         a.workspace == b.workspace && a.sessions == b.sessions;
}

std::vector<MemoryTerm> Terms(const MemoryPlan& plan) {
  return {{"weights", plan.weights},     {"gradients", plan.gradients},
          {"optimizer", plan.optimizer}, {"activations", plan.activations},
          {"workspace", plan.workspace}, {"sessions", plan.sessions}};
}

std::string LargestTerms(const MemoryPlan& plan, int count) {
  std::vector<MemoryTerm> terms = Terms(plan);
  std::stable_sort(terms.begin(), terms.end(),
                   [](const MemoryTerm& a, const MemoryTerm& b) {
                     return a.bytes > b.bytes;
                   });
  std::vector<std::string> texts;
  for (const MemoryTerm& term : terms) {
    if (term.bytes == 0 || static_cast<int>(texts.size()) == count) break;
    texts.push_back(absl::StrCat(term.kind, " ", FormatBytes(term.bytes)));
  }
  return texts.empty() ? "nothing" : absl::StrJoin(texts, ", ");
}

MemoryPlan InferencePlan(const Model& model, BatchShape largest,
                         DeviceKind kind, Precision precision) {
  const bool packed = kind == DeviceKind::kCpu;
  MemoryPlan plan;
  plan.weights = WeightBytes(model);
  if (packed) plan.weights += PackedWeightBytes(model, precision);
  plan.activations = ArenaBytes(model, Mode::kInference, largest, packed);
  return plan;
}

MemoryPlan TrainingPlan(const Model& model, const TrainingShape& shape) {
  assert(0 <= shape.rank && shape.rank < shape.world_size);
  MemoryPlan plan;
  plan.weights = WeightBytes(model);
  plan.gradients = GradientBytes(model, shape);
  plan.optimizer = shape.num_moments * WeightBytes(model);
  plan.activations =
      ArenaBytes(model, Mode::kTraining, shape.largest_micro_batch);
  return plan;
}

int64_t ExchangePieces(int64_t num_micro_batches,
                       absl::Span<const Range> assignment) {
  if (assignment.size() <= 1) return 0;
  int64_t pieces = 0;
  for (const Range range : assignment) {
    pieces += MaximalSubtrees(num_micro_batches, range).size();
  }
  return pieces;
}

int64_t MaxExchangePieces(int64_t num_micro_batches, int world_size) {
  if (world_size == 1) return 0;
  // The maximal nodes of any range are at most the sums alive before a leaf
  // that would follow it, and no more than the micro-batches.
  const int64_t of_any = MaxLivePartials(num_micro_batches + 1) - 1;
  const int64_t of_first = MaxLivePartials(num_micro_batches + 1, 1) - 1;
  return std::min(num_micro_batches, of_first + (world_size - 1) * of_any);
}

MemoryPlan WorkspacePlan(const DeviceSpec& spec) {
  if (spec.kind == DeviceKind::kCpu) return WorkspacePlan(spec.threads);
  MemoryPlan plan;
  plan.workspace = cuda::kWorkspaceBytes;
  return plan;
}

MemoryPlan WorkspacePlan(int num_threads) {
  MemoryPlan plan;
  plan.workspace = CpuWorkspaceBytes(num_threads);
  return plan;
}

int64_t ServingFloor(const DeviceSpec& spec, double share) {
  if (spec.memory_bytes == 0) return 0;
  const int64_t rest = spec.memory_bytes - WorkspacePlan(spec).total();
  return std::max<int64_t>(
      static_cast<int64_t>(share * static_cast<double>(rest)), 0);
}

}  // namespace recurve
