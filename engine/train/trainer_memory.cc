#include "engine/train/trainer_memory.h"

#include <algorithm>
#include <optional>
#include <ranges>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/executor.h"
#include "engine/schedule/gradient_tree.h"
#include "engine/schedule/training_fit.h"
#include "engine/train/training_needs.h"
#include "kernels/status.h"

namespace recurve {
namespace {

constexpr int kNobody = -1;

// Of a call of one micro-batch, which is one sequence.
TrainingNeeds NeedsOfRows(TrainingNeeds needs, int64_t rows) {
  needs.call = {rows, 1, rows, rows};
  return needs;
}

// On which devices a trainer is and what it holds there to begin with.
class Placement {
 public:
  Placement(DevicePool& pool, const Model& model,
            const v1::TrainerConfig& config, const TrainerOptions& options)
      : pool_(pool),
        model_(model),
        options_(options),
        needs_(NeedsOfTrainer(config)),
        candidates_(TrainingDevices(pool)) {}

  // Without some devices where it would be refused, as long as others do.
  absl::Status Find() {
    absl::Status first_refusal;
    for (;;) {
      RETURN_IF_ERROR(Choose(first_refusal));
      const absl::Status status = ReserveAll();
      if (status.ok() || !absl::IsResourceExhausted(status) || options_.wait) {
        return status;
      }
      first_refusal.Update(status);
      const int refused = members[reservations.size()];
      reservations.clear();
      candidates_.erase(
          std::find(candidates_.begin(), candidates_.end(), refused));
      if (candidates_.empty()) return first_refusal;
    }
  }

  std::vector<int> members;  // of the pool
  std::vector<TrainingShape> shapes;
  std::vector<Ledger::Reservation> reservations;
  std::optional<HeldMemory> beside;

 private:
  absl::Status Choose(const absl::Status& refusal) {
    auto fitting = Fitting();
    if (!fitting.ok()) return refusal.ok() ? fitting.status() : refusal;
    members.clear();
    shapes.clear();
    for (const int index : *fitting) members.push_back(candidates_[index]);
    for (size_t rank = 0; rank < members.size(); ++rank) {
      shapes.push_back(FirstShape(rank));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<int>> Fitting() {
    const std::vector<DeviceBudget> budgets = BudgetsOf(pool_, candidates_);
    if (options_.calls) {
      needs_.call = *options_.calls;
      return FittingOfRun(budgets);
    }
    // Whose batches nobody knows: full micro-batches would be good, but small
    // ones may come too.
    TrainingNeeds any = needs_;
    any.accumulates = true;
    auto fitting =
        FittingDevices(model_, NeedsOfRows(any, any.micro_batch_rows), budgets);
    if (fitting.ok()) return fitting;
    return FittingDevices(model_, NeedsOfRows(any, 1), budgets);
  }

  absl::StatusOr<std::vector<int>> FittingOfRun(
      absl::Span<const DeviceBudget> budgets) {
    if (options_.beside.empty()) {
      return FittingDevices(model_, needs_, budgets);
    }
    ASSIGN_OR_RETURN(
        const TrainingPlace place,
        FittingDevicesBeside(model_, needs_, budgets, options_.beside));
    beside_device_ = candidates_[place.beside_device];
    beside_plan_ = place.beside;
    return place.members;
  }

  TrainingShape FirstShape(int rank) const {
    const int world_size = static_cast<int>(members.size());
    if (options_.calls) return LargestShape(needs_, rank, world_size);
    TrainingShape shape;
    shape.num_moments = needs_.num_moments;
    shape.rank = rank;
    shape.world_size = world_size;
    return shape;
  }

  absl::Status ReserveAll() {
    return options_.wait ? ReserveTogether() : ReserveEach();
  }

  // As far as it goes.
  absl::Status ReserveEach() {
    for (size_t rank = 0; rank < members.size(); ++rank) {
      ASSIGN_OR_RETURN(
          Ledger::Reservation held,
          LedgerOf(members[rank])
              .Reserve(options_.owner, TrainingPlan(model_, shapes[rank]),
                       TaskClass::kTraining));
      reservations.push_back(std::move(held));
    }
    return absl::OkStatus();
  }

  // Of all devices at once, and with it what is beside.
  absl::Status ReserveTogether() {
    std::vector<Ledger::Need> needs;
    for (size_t rank = 0; rank < members.size(); ++rank) {
      needs.push_back(
          {&LedgerOf(members[rank]),
           TrainingPlan(model_, shapes[rank]) + BesideOn(members[rank])});
    }
    const bool apart = beside_device_ != kNobody && !Trains(beside_device_);
    if (apart) needs.push_back({&LedgerOf(beside_device_), beside_plan_});
    ASSIGN_OR_RETURN(reservations,
                     Ledger::ReserveAll(options_.owner, needs, *options_.wait));
    if (beside_device_ == kNobody) return absl::OkStatus();
    if (apart) {
      beside = HeldMemory{beside_device_, std::move(reservations.back())};
      reservations.pop_back();
    } else {
      const auto rank =
          std::find(members.begin(), members.end(), beside_device_) -
          members.begin();
      beside =
          HeldMemory{beside_device_, reservations[rank].Split(beside_plan_)};
    }
    return absl::OkStatus();
  }

  bool Trains(int device) const {
    return std::find(members.begin(), members.end(), device) != members.end();
  }
  MemoryPlan BesideOn(int device) const {
    return device == beside_device_ ? beside_plan_ : MemoryPlan();
  }
  Ledger& LedgerOf(int device) { return pool_.device(device).ledger(); }

  DevicePool& pool_;
  const Model& model_;
  const TrainerOptions& options_;
  TrainingNeeds needs_;
  std::vector<int> candidates_;  // of the pool
  int beside_device_ = kNobody;
  MemoryPlan beside_plan_;
};

}  // namespace

absl::StatusOr<TrainerMemory> TrainerMemory::Reserve(
    DevicePool& pool, std::shared_ptr<const Model> model,
    const v1::TrainerConfig& config, const TrainerOptions& options) {
  Placement placement(pool, *model, config, options);
  RETURN_IF_ERROR(placement.Find());
  TrainerMemory memory({&pool, std::move(placement.members)}, std::move(model));
  memory.shapes_ = std::move(placement.shapes);
  memory.reservations_ = std::move(placement.reservations);
  memory.beside_ = std::move(placement.beside);
  return memory;
}

int64_t TrainerMemory::ArenaBytes(BatchShape shape) const {
  if (shape.rows == 0 && shape.sequences == 0) return 0;
  return Executor::ArenaBytes(*model_, Mode::kTraining, shape.rows,
                              shape.sequences);
}

absl::StatusOr<std::vector<Range>> TrainerMemory::Assign(
    absl::Span<const BatchShape> micro_batches, bool accumulates) {
  std::vector<int64_t> rows, bytes;
  for (const BatchShape shape : micro_batches) {
    rows.push_back(shape.rows);
    bytes.push_back(ArenaBytes(shape));
  }
  BatchShape largest;
  if (!bytes.empty()) {
    largest = micro_batches[std::max_element(bytes.begin(), bytes.end()) -
                            bytes.begin()];
  }
  std::vector<DeviceRoom> rooms(group_.size());
  for (int rank = 0; rank < group_.size(); ++rank) {
    rooms[rank].name = group_.device(rank).name();
    rooms[rank].speed = group_.device(rank).spec().threads;
  }
  absl::Status first_refusal;
  const auto refused_with_advice = [&]() -> absl::Status {
    if (!absl::IsResourceExhausted(first_refusal)) return first_refusal;
    return absl::ResourceExhaustedError(
        absl::StrCat(first_refusal.message(),
                     Advice(micro_batches.size(), largest, accumulates)));
  };
  for (;;) {
    const auto assignment = AssignWithinMemory(rows, bytes, rooms);
    if (!assignment.ok()) return refused_with_advice();
    int refused = kNobody;
    const absl::Status status = Grow(
        ShapesOf(*assignment, rows.size(), largest, accumulates), &refused);
    if (status.ok()) return assignment;
    first_refusal.Update(status);
    if (!absl::IsResourceExhausted(status) || (*assignment)[refused].empty()) {
      return refused_with_advice();
    }
    rooms[refused].bytes = 0;  // for activations
  }
}

// What a smaller call could have; empty where the budgets hold this one, and
// others have the memory.
std::string TrainerMemory::Advice(int64_t num_micro_batches, BatchShape largest,
                                  bool accumulates) const {
  const auto fits = [&](int64_t rows) {
    return FitsBudgets(num_micro_batches,
                       {rows, std::min(rows, largest.sequences)}, accumulates);
  };
  const auto rows = std::views::iota(int64_t{1}, largest.rows + 1);
  const int64_t most = std::ranges::partition_point(rows, fits) - rows.begin();
  if (most == largest.rows) return "";
  if (most == 0) return "; no sequence fits, however short";
  return absl::StrCat(largest.sequences == 1
                          ? "; the longest sequence that fits has "
                          : "; the largest micro-batch "
                            "(trainer.micro_batch_rows) that fits has ",
                      most, most == 1 ? " row" : " rows");
}

// Whether one device could have all of such micro-batches if nobody else held
// anything.
bool TrainerMemory::FitsBudgets(int64_t num_micro_batches, BatchShape largest,
                                bool accumulates) const {
  const auto holds = [this](int rank, const TrainingShape& needed) {
    return group_.device(rank)
        .ledger()
        .CheckFitsBudget("",
                         TrainingPlan(*model_, Larger(shapes_[rank], needed)),
                         TaskClass::kTraining)
        .ok();
  };
  for (int owner = 0; owner < group_.size(); ++owner) {
    std::vector<Range> assignment(group_.size());
    assignment[owner] = {0, num_micro_batches};
    for (int rank = owner + 1; rank < group_.size(); ++rank) {
      assignment[rank] = {num_micro_batches, num_micro_batches};
    }
    const Shapes needed =
        ShapesOf(assignment, num_micro_batches, largest, accumulates);
    bool all = true;
    for (int rank = 0; rank < group_.size(); ++rank) {
      all = all && holds(rank, needed[rank]);
    }
    if (all) return true;
  }
  return false;
}

absl::Status TrainerMemory::ReserveAccumulated() {
  Shapes needed = shapes_;
  for (TrainingShape& shape : needed) shape.accumulates = true;
  int refused = kNobody;
  return Grow(needed, &refused);
}

TrainerMemory::Shapes TrainerMemory::ShapesOf(
    absl::Span<const Range> assignment, int64_t num_micro_batches,
    BatchShape largest, bool accumulates) const {
  Shapes shapes = shapes_;
  for (size_t rank = 0; rank < shapes.size(); ++rank) {
    const Range range = assignment[rank];
    TrainingShape& shape = shapes[rank];
    shape.largest_micro_batch = range.empty() ? BatchShape() : largest;
    shape.accumulates = accumulates;
    shape.live_partials =
        std::max<int64_t>(1, LivePartials(num_micro_batches, range));
    shape.exchange_pieces = ExchangePieces(num_micro_batches, assignment);
  }
  return shapes;
}

absl::Status TrainerMemory::Grow(const Shapes& needed, int* refused) {
  Shapes grown;
  for (int rank = 0; rank < group_.size(); ++rank) {
    grown.push_back(Larger(shapes_[rank], needed[rank]));
    const absl::Status status =
        reservations_[rank].Resize(TrainingPlan(*model_, grown[rank]));
    if (status.ok()) continue;
    *refused = rank;
    for (int before = 0; before < rank; ++before) {
      // Shrinking always succeeds.
      (void)reservations_[before].Resize(
          TrainingPlan(*model_, shapes_[before]));
    }
    return status;
  }
  shapes_ = std::move(grown);
  return absl::OkStatus();
}

// Room for both.
TrainingShape TrainerMemory::Larger(const TrainingShape& a,
                                    const TrainingShape& b) const {
  TrainingShape larger = a;
  if (ArenaBytes(b.largest_micro_batch) > ArenaBytes(a.largest_micro_batch)) {
    larger.largest_micro_batch = b.largest_micro_batch;
  }
  larger.accumulates = a.accumulates || b.accumulates;
  larger.live_partials = std::max(a.live_partials, b.live_partials);
  larger.exchange_pieces = std::max(a.exchange_pieces, b.exchange_pieces);
  return larger;
}

}  // namespace recurve
