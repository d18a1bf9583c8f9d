#include "engine/serve/state_pool.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/synchronization/notification.h"
#include "engine/schedule/memory_plan.h"
#include "engine/serve/host_rows.h"
#include "kernels/cell_args.h"
#include "kernels/status.h"

namespace recurve {
namespace {

constexpr char kOwner[] = "sessions";
// Of a limited budget, less the workspace, which is never anyone's, what the
// pool leaves free for models.
constexpr int64_t kLeavesFree = 4;  // a fourth

// Whether `bytes` are there without taking anything from anyone.
bool AreFree(const DeviceWorker& device, int64_t bytes) {
  const LedgerSnapshot memory = device.ledger().Snapshot();
  if (memory.budget_bytes == 0) return true;
  const int64_t for_all =
      memory.budget_bytes - WorkspacePlan(device.spec()).total();
  const int64_t free = memory.budget_bytes - memory.reserved_bytes;
  return memory.waiting.empty() && free - bytes >= for_all / kLeavesFree;
}

}  // namespace

// --- A block ---

int64_t StateBlock::Bytes(int64_t carry_size) {
  return 2 * kSlots *
         static_cast<int64_t>(carry_size * sizeof(float) + sizeof(int32_t));
}

absl::StatusOr<std::shared_ptr<StateBlock>> StateBlock::Create(
    DeviceWorker& device, int rank, int64_t carry_size,
    Ledger::Reservation memory, Backend& backend) {
  std::shared_ptr<StateBlock> block(new StateBlock(device, rank, carry_size));
  block->backend_ = std::make_unique<AccountBackend>(backend, memory.account());
  ASSIGN_OR_RETURN(block->buffer_,
                   block->backend_->Allocate(Bytes(carry_size)));
  absl::MutexLock lock(&block->mutex_);
  block->memory_ = std::move(memory);
  block->states_.resize(kSlots);
  for (int slot = kSlots - 1; slot >= 0; --slot) block->free_.push_back(slot);
  return block;
}

void StateBlock::OnDevice(std::function<void(Backend&)> task) const {
  device_.Enqueue(TaskClass::kServing, std::move(task));
}

std::optional<int> StateBlock::Take(const std::weak_ptr<CarriedState>& state) {
  absl::MutexLock lock(&mutex_);
  if (free_.empty()) return std::nullopt;
  const int slot = free_.back();
  free_.pop_back();
  states_[slot] = state;
  return slot;
}

void StateBlock::Free(int slot) {
  {
    absl::MutexLock lock(&mutex_);
    states_[slot].reset();
    free_.push_back(slot);
    if (free_.size() < kSlots) return;
  }
  OnDevice([self = shared_from_this()](Backend&) { self->CloseIfEmpty(); });
}

bool StateBlock::closed() const {
  absl::MutexLock lock(&mutex_);
  return closed_;
}

void StateBlock::CloseIfEmpty() {
  {
    absl::MutexLock lock(&mutex_);
    if (free_.size() < kSlots) return;
    free_.clear();
    closed_ = true;
  }
  buffer_.reset();
  ReleaseMemory();
}

Matrix<float> StateBlock::rows() const {
  return {static_cast<float*>(buffer_->data()), 2 * kSlots, carry_size_};
}

int32_t* StateBlock::indices() const {
  return reinterpret_cast<int32_t*>(rows().row(2 * kSlots));
}

absl::Status StateBlock::UploadPairs(const RowPairs& pairs, Backend& backend) {
  const auto bytes = static_cast<int64_t>(pairs.block.size() * sizeof(int32_t));
  RETURN_IF_ERROR(backend.Upload(indices(), pairs.block.data(), bytes));
  return backend.Upload(indices() + kSlots, pairs.matrix.data(), bytes);
}

absl::Status StateBlock::Gather(const RowPairs& pairs, Matrix<float> to,
                                Backend& backend) {
  RETURN_IF_ERROR(UploadPairs(pairs, backend));
  CopyRowsArgs args;
  args.from = rows();
  args.from_rows = indices();
  args.to = to;
  args.to_rows = indices() + kSlots;
  args.count = static_cast<int64_t>(pairs.block.size());
  return backend.CopyRows(args);
}

absl::Status StateBlock::Scatter(const RowPairs& pairs,
                                 Matrix<const float> from, Backend& backend) {
  RETURN_IF_ERROR(UploadPairs(pairs, backend));
  CopyRowsArgs args;
  args.from = from;
  args.from_rows = indices() + kSlots;
  args.to = rows();
  args.to_rows = indices();
  args.count = static_cast<int64_t>(pairs.block.size());
  return backend.CopyRows(args);
}

absl::Status StateBlock::Write(int slot, int row, const float* from,
                               Backend& backend) {
  return backend.Upload(rows().row(2 * slot + row), from,
                        carry_size_ * static_cast<int64_t>(sizeof(float)));
}

absl::StatusOr<CarriedState::Values> StateBlock::ReadRow(
    int slot, int row, Backend& backend) const {
  CarriedState::Values values(carry_size_);
  RETURN_IF_ERROR(
      backend.Download(values.data(), rows().row(2 * slot + row),
                       carry_size_ * static_cast<int64_t>(sizeof(float))));
  return values;
}

void StateBlock::Spill(Backend& backend) {
  if (buffer_ == nullptr) return;  // it was empty
  std::vector<std::weak_ptr<CarriedState>> states;
  {
    absl::MutexLock lock(&mutex_);
    states = states_;
  }
  std::vector<float> all;
  const absl::Status status = OnHost(backend, rows(), all).status();
  all.resize(2 * kSlots * carry_size_);
  for (int slot = 0; slot < kSlots; ++slot) {
    const auto state = states[slot].lock();
    if (state == nullptr || state->place().block.get() != this) continue;
    CarriedState::Values rows[2];
    for (const int row : {0, 1}) {
      const float* const from = all.data() + (2 * slot + row) * carry_size_;
      rows[row].assign(from, from + carry_size_);
    }
    state->MoveToHost(rows, status);
  }
  buffer_.reset();
}

void StateBlock::SpillOne(CarriedState& state, int slot, Backend& backend) {
  CarriedState::Values rows[2];
  absl::Status status;
  for (const int row : {0, 1}) {
    auto values = ReadRow(slot, row, backend);
    status.Update(values.status());
    rows[row] =
        values.ok() ? *std::move(values) : CarriedState::Values(carry_size_);
  }
  state.MoveToHost(rows, status);
  Free(slot);
}

void StateBlock::ReleaseMemory() {
  Ledger::Reservation memory;
  absl::MutexLock lock(&mutex_);
  memory = std::move(memory_);
}

// --- The pool ---

StatePool::StatePool(DeviceWorker& device, int rank)
    : device_(device), rank_(rank) {
  device_.ledger().AddEvictor(this);
}

StatePool::~StatePool() {
  device_.ledger().RemoveEvictor(this);
  absl::Notification spilled;
  device_.Enqueue(TaskClass::kServing, [&](Backend& backend) {
    SpillAll(backend);
    spilled.Notify();
  });
  spilled.WaitForNotification();
}

absl::StatusOr<bool> StatePool::Place(CarriedState& state, Backend& backend) {
  ASSIGN_OR_RETURN(CarriedState::Place place,
                   FindPlace(state.shared_from_this(), backend));
  if (place.block == nullptr) return false;
  for (const int row : {0, 1}) {
    const absl::Status written =
        place.block->Write(place.slot, row, state.row(row), backend);
    if (written.ok()) continue;
    place.block->Free(place.slot);
    return written;
  }
  state.MoveTo(std::move(place));
  return true;
}

absl::StatusOr<CarriedState::Place> StatePool::FindPlace(
    const std::shared_ptr<CarriedState>& state, Backend& backend) {
  {
    absl::MutexLock lock(&mutex_);
    backend_ = &backend;
    for (const auto& block : blocks_) {
      if (block->carry_size() != state->carry_size()) continue;
      if (const auto slot = block->Take(state)) {
        return CarriedState::Place{block, *slot};
      }
    }
  }
  ASSIGN_OR_RETURN(const auto block, NewBlock(state->carry_size(), backend));
  if (block == nullptr) return CarriedState::Place();
  return CarriedState::Place{block, *block->Take(state)};
}

// Null without room.
absl::StatusOr<std::shared_ptr<StateBlock>> StatePool::NewBlock(
    int64_t carry_size, Backend& backend) {
  const int64_t bytes = StateBlock::Bytes(carry_size);
  if (carry_size == 0 || !AreFree(device_, bytes)) return nullptr;
  MemoryPlan plan;
  plan.sessions = bytes;
  auto memory = device_.ledger().TryReserve(kOwner, plan);
  if (!memory.ok()) return nullptr;
  auto block = StateBlock::Create(device_, rank_, carry_size,
                                  *std::move(memory), backend);
  // Others than this process may use the device, too.
  if (absl::IsResourceExhausted(block.status())) return nullptr;
  RETURN_IF_ERROR(block.status());
  absl::MutexLock lock(&mutex_);
  blocks_.erase(
      std::remove_if(blocks_.begin(), blocks_.end(),
                     [](const auto& other) { return other->closed(); }),
      blocks_.end());
  blocks_.push_back(*block);
  return block;
}

void StatePool::SpillAll(Backend& backend) {
  for (const auto& block : TakeOut(std::numeric_limits<int64_t>::max())) {
    block->Spill(backend);
  }
}

void StatePool::Spill(absl::Span<const std::shared_ptr<CarriedState>> states,
                      Backend& backend) {
  for (const auto& state : states) {
    const CarriedState::Place place = state->place();
    if (place.block == nullptr || place.block->device() != rank_) continue;
    place.block->SpillOne(*state, place.slot, backend);
  }
}

StatePool::Blocks StatePool::TakeOut(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  Blocks out;
  auto end = blocks_.begin();
  for (; end != blocks_.end() && bytes > 0; ++end) {
    if ((*end)->closed()) continue;
    bytes -= StateBlock::Bytes((*end)->carry_size());
    (*end)->ReleaseMemory();
    out.push_back(*end);
  }
  blocks_.erase(blocks_.begin(), end);
  return out;
}

int64_t StatePool::EvictableBytes() {
  absl::MutexLock lock(&mutex_);
  int64_t bytes = 0;
  for (const auto& block : blocks_) {
    if (block->closed()) continue;
    bytes += StateBlock::Bytes(block->carry_size());
  }
  return bytes;
}

void StatePool::Evict(int64_t bytes) {
  const Blocks out = TakeOut(bytes);
  if (out.empty()) return;
  const auto spill = [out](Backend& backend) {
    for (const auto& block : out) block->Spill(backend);
  };
  if (!device_.OnThread()) return device_.Enqueue(TaskClass::kServing, spill);
  Backend* backend = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    backend = backend_;
  }
  spill(*backend);
}

}  // namespace recurve
