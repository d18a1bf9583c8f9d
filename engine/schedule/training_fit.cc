#include "engine/schedule/training_fit.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/schedule/format_bytes.h"
#include "engine/schedule/gradient_tree.h"
#include "kernels/status.h"

namespace recurve {
namespace {

int64_t Available(const DeviceBudget& device) {
  if (device.bytes == 0) return std::numeric_limits<int64_t>::max();
  return device.bytes - device.workspace - device.serving_floor;
}

bool Holds(const Model& model, const TrainingNeeds& needs,
           const DeviceBudget& device, int rank, int world_size) {
  return TrainingPlan(model, needs, rank, world_size).total() <=
         Available(device);
}

// The end of the values from `begin` on for which `holds`, which holds up to
// some value below `end` and then no more; `begin` if it holds for none.
int64_t EndOf(int64_t begin, int64_t end,
              const std::function<bool(int64_t)>& holds) {
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    if (holds(middle)) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return begin;
}

// Activations grow with micro_batch_rows, partial sums become fewer: among the
// values with the same number of partial sums the smaller ones fit first.
int64_t LargestMicroBatchRows(TrainingNeeds needs,
                              const std::function<bool(int64_t)>& fits) {
  const auto partials = [&](int64_t rows) {
    return MaxLivePartials(MostMicroBatches(needs.call, rows), 1);
  };
  for (int64_t end = needs.micro_batch_rows; end > 1;) {
    const int64_t fewest = partials(end - 1);
    const int64_t begin =
        EndOf(1, end, [&](int64_t rows) { return partials(rows) > fewest; });
    const int64_t end_of_fitting = EndOf(begin, end, fits);
    if (end_of_fitting > begin) return end_of_fitting - 1;
    end = begin;
  }
  return 0;
}

// 0 if none fits, however few rows a micro-batch has.
int64_t LongestSequence(const Model& model, TrainingNeeds needs,
                        const DeviceBudget& device) {
  const CallBounds call = needs.call;
  needs.micro_batch_rows = 1;
  return EndOf(1, call.longest_sequence,
               [&](int64_t length) {
                 needs.call.longest_sequence = length;
                 needs.call.shortest_sequence =
                     std::min(call.shortest_sequence, length);
                 return Holds(model, needs, device, 0, 1);
               }) -
         1;
}

std::string Advice(const Model& model, const TrainingNeeds& needs,
                   const DeviceBudget& device) {
  TrainingNeeds smaller = needs;
  const int64_t rows = LargestMicroBatchRows(needs, [&](int64_t rows) {
    smaller.micro_batch_rows = rows;
    return Holds(model, smaller, device, 0, 1);
  });
  if (rows > 0) {
    return absl::StrCat("the largest trainer.micro_batch_rows that fits is ",
                        rows);
  }
  const int64_t length = LongestSequence(model, needs, device);
  if (length > 0) {
    return absl::StrCat(
        "no trainer.micro_batch_rows fits; the longest sequence that fits has ",
        length, length == 1 ? " row" : " rows", " (loader.unroll, of a text)");
  }
  return "no trainer.micro_batch_rows and no sequence fits: the model needs a "
         "larger budget (--devices=...:memory=SIZE)";
}

std::string BudgetText(const DeviceBudget& device) {
  const std::string text =
      absl::StrCat("budget of ", device.name, " ", FormatBytes(device.bytes));
  if (device.serving_floor == 0) return text;
  return absl::StrCat(text, " less ", FormatBytes(device.serving_floor),
                      " for serving (--serving_memory_share)");
}

absl::Status Refusal(const Model& model, const TrainingNeeds& needs,
                     absl::Span<const DeviceBudget> devices) {
  const DeviceBudget& roomiest =
      *std::max_element(devices.begin(), devices.end(),
                        [](const DeviceBudget& a, const DeviceBudget& b) {
                          return Available(a) < Available(b);
                        });
  MemoryPlan plan = TrainingPlan(model, needs, 0, 1);
  plan.workspace = roomiest.workspace;
  return absl::ResourceExhaustedError(absl::StrCat(
      "training needs ", FormatBytes(plan.total()),
      " on a device: ", LargestTerms(plan), "; ",
      absl::StrJoin(devices, ", ",
                    [](std::string* out, const DeviceBudget& device) {
                      absl::StrAppend(out, BudgetText(device));
                    }),
      "; ", Advice(model, needs, roomiest)));
}

// What is left of it; at least its workspace.
DeviceBudget Without(const MemoryPlan& beside, const DeviceBudget& device) {
  if (device.bytes == 0) return device;
  DeviceBudget left = device;
  absl::StrAppend(&left.name, " without ", FormatBytes(beside.total()),
                  " for the job's evaluations");
  left.bytes -= std::min(beside.total(), Available(device));
  return left;
}

// With what is beside on any one device; no members if it fits on none.
TrainingPlace MostMembers(const Model& model, const TrainingNeeds& needs,
                          absl::Span<const DeviceBudget> devices,
                          const MemoryPlan& beside) {
  TrainingPlace most;
  std::vector<DeviceBudget> left(devices.begin(), devices.end());
  for (size_t d = 0; d < devices.size(); ++d) {
    if (beside.total() > Available(devices[d])) continue;
    left[d] = Without(beside, devices[d]);
    auto members = FittingDevices(model, needs, left);
    left[d] = devices[d];
    if (members.ok() && members->size() > most.members.size()) {
      most = {*std::move(members), static_cast<int>(d), beside};
    }
  }
  return most;
}

}  // namespace

BatchShape LargestMicroBatch(const CallBounds& call, int64_t micro_batch_rows) {
  const int64_t sequences =
      call.shortest_sequence == 0
          ? call.sequences
          : std::clamp<int64_t>(micro_batch_rows / call.shortest_sequence, 1,
                                call.sequences);
  const int64_t together =
      std::min(micro_batch_rows, sequences * call.longest_sequence);
  return {std::min(call.rows, std::max(call.longest_sequence, together)),
          sequences};
}

int64_t MostMicroBatches(const CallBounds& call, int64_t micro_batch_rows) {
  if (call.shortest_sequence == call.longest_sequence) {
    const int64_t each = LargestMicroBatch(call, micro_batch_rows).sequences;
    return (call.sequences + each - 1) / each;
  }
  // Two neighbours have more rows than one may have.
  return std::min(call.sequences, 2 * (call.rows / (micro_batch_rows + 1)) + 1);
}

TrainingShape LargestShape(const TrainingNeeds& needs, int rank,
                           int world_size) {
  const int64_t count = MostMicroBatches(needs.call, needs.micro_batch_rows);
  TrainingShape shape;
  shape.largest_micro_batch =
      LargestMicroBatch(needs.call, needs.micro_batch_rows);
  shape.num_moments = needs.num_moments;
  shape.accumulates = needs.accumulates;
  shape.rank = rank;
  shape.world_size = world_size;
  shape.live_partials = MaxLivePartials(count, world_size);
  shape.exchange_pieces = MaxExchangePieces(count, world_size);
  return shape;
}

MemoryPlan TrainingPlan(const Model& model, const TrainingNeeds& needs,
                        int rank, int world_size) {
  return TrainingPlan(model, LargestShape(needs, rank, world_size));
}

absl::StatusOr<std::vector<int>> FittingDevices(
    const Model& model, const TrainingNeeds& needs,
    absl::Span<const DeviceBudget> devices) {
  std::vector<int> members(devices.size());
  std::iota(members.begin(), members.end(), 0);
  // With fewer devices each has more to hold: those left are asked again.
  while (!members.empty()) {
    std::vector<int> fitting;
    const int world_size = static_cast<int>(members.size());
    for (int rank = 0; rank < world_size; ++rank) {
      if (Holds(model, needs, devices[members[rank]], rank, world_size)) {
        fitting.push_back(members[rank]);
      }
    }
    if (fitting.size() == members.size()) return members;
    members = std::move(fitting);
  }
  // A lone device keeps fewer partial sums than one of several.
  for (size_t d = 0; d < devices.size(); ++d) {
    if (Holds(model, needs, devices[d], 0, 1)) {
      return std::vector<int>{static_cast<int>(d)};
    }
  }
  return Refusal(model, needs, devices);
}

absl::StatusOr<TrainingPlace> FittingDevicesBeside(
    const Model& model, const TrainingNeeds& needs,
    absl::Span<const DeviceBudget> devices,
    absl::Span<const MemoryPlan> beside) {
  // What is advised must hold beside the evaluations, too.
  std::vector<DeviceBudget> left;
  for (const DeviceBudget& device : devices) {
    left.push_back(Without(beside.back(), device));
  }
  const auto alone = FittingDevices(model, needs, devices);
  if (!alone.ok()) return Refusal(model, needs, left);
  TrainingPlace most;
  for (const MemoryPlan& plan : beside) {
    TrainingPlace place = MostMembers(model, needs, devices, plan);
    if (place.members.size() > most.members.size()) most = std::move(place);
    if (most.members.size() == alone->size()) return most;
  }
  if (!most.members.empty()) return most;
  return Refusal(model, needs, left);
}

}  // namespace recurve
