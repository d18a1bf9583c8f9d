// Where a device keeps the carries of live sequences between their passes.
#ifndef RECURVE_ENGINE_SERVE_STATE_POOL_H_
#define RECURVE_ENGINE_SERVE_STATE_POOL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/schedule/account_backend.h"
#include "engine/schedule/device.h"
#include "engine/schedule/ledger.h"
#include "engine/serve/carried_state.h"
#include "kernels/backend.h"
#include "kernels/tensor.h"

namespace recurve {

// A number of places for states of one size, each of two rows, and of indices
// for copying them: one reservation and one buffer. The rows belong to the
// device's thread, who has which place to the lock. A block may outlive its
// pool, empty and without its buffer.
class StateBlock : public std::enable_shared_from_this<StateBlock> {
 public:
  static constexpr int kSlots = 128;
  static int64_t Bytes(int64_t carry_size);

  static absl::StatusOr<std::shared_ptr<StateBlock>> Create(
      DeviceWorker& device, int rank, int64_t carry_size,
      Ledger::Reservation memory, Backend& backend);

  int device() const { return rank_; }
  int64_t carry_size() const { return carry_size_; }
  // Runs it on the device's thread.
  void OnDevice(std::function<void(Backend&)> task) const;

  // --- Places ---

  // Absent if all are taken.
  std::optional<int> Take(const std::weak_ptr<CarriedState>& state);
  // The last one gives the block's memory back, a little later.
  void Free(int slot);
  // Whether it has done that: nobody gets a place any more.
  bool closed() const;

  // --- On the device's thread ---

  // Rows of states and of a matrix [B, C], for Gather and Scatter: at most one
  // row of each state.
  struct RowPairs {
    std::vector<int32_t> block;   // 2 * slot + row
    std::vector<int32_t> matrix;  // each in [0, B)
  };
  absl::Status Gather(const RowPairs& pairs, Matrix<float> to,
                      Backend& backend);
  absl::Status Scatter(const RowPairs& pairs, Matrix<const float> from,
                       Backend& backend);
  absl::Status Write(int slot, int row, const float* from, Backend& backend);
  absl::StatusOr<CarriedState::Values> ReadRow(int slot, int row,
                                               Backend& backend) const;
  // Moves one state to the host, or all, and then frees the buffer. What cannot
  // be read is lost.
  void SpillOne(CarriedState& state, int slot, Backend& backend);
  void Spill(Backend& backend);
  // Of the ledger.
  void ReleaseMemory();

 private:
  StateBlock(DeviceWorker& device, int rank, int64_t carry_size)
      : device_(device), rank_(rank), carry_size_(carry_size) {}

  // On the device's thread, where places are taken.
  void CloseIfEmpty();
  // [2 kSlots, C]
  Matrix<float> rows() const;
  // On the device: the pairs' rows, [kSlots] each.
  int32_t* indices() const;
  absl::Status UploadPairs(const RowPairs& pairs, Backend& backend);

  DeviceWorker& device_;
  const int rank_;
  const int64_t carry_size_;
  std::unique_ptr<AccountBackend> backend_;
  std::unique_ptr<DeviceBuffer> buffer_;
  mutable absl::Mutex mutex_;
  Ledger::Reservation memory_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<int> free_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<CarriedState>> states_ ABSL_GUARDED_BY(mutex_);
};

// One device's. It takes memory that nobody has, and gives it up, block by
// block, to whoever wants it: a state that finds no place stays in host memory,
// which costs its copies at each pass and nothing else.
//
// Place and Spill on the device's thread alone; not while a pass is packed.
class StatePool : public Evictor {
 public:
  // `device` outlives it.
  StatePool(DeviceWorker& device, int rank);
  // Moves all states to the host. Not from a device's thread.
  ~StatePool() override;

  // Moves a state from the host to here; false, and it stays there, without
  // room, which others of its size then do not find either. So does an error of
  // the device leave it there.
  absl::StatusOr<bool> Place(CarriedState& state, Backend& backend);
  // Moves to the host what is here: all, or of these states.
  void SpillAll(Backend& backend);
  void Spill(absl::Span<const std::shared_ptr<CarriedState>> states,
             Backend& backend);

  int64_t EvictableBytes() override;
  void Evict(int64_t bytes) override;

 private:
  using Blocks = std::vector<std::shared_ptr<StateBlock>>;

  absl::StatusOr<CarriedState::Place> FindPlace(
      const std::shared_ptr<CarriedState>& state, Backend& backend);
  absl::StatusOr<std::shared_ptr<StateBlock>> NewBlock(int64_t carry_size,
                                                       Backend& backend);
  // Takes out the oldest blocks with at least that many bytes; their memory is
  // not reserved any more but for what is used.
  Blocks TakeOut(int64_t bytes);

  DeviceWorker& device_;
  const int rank_;
  absl::Mutex mutex_;
  Blocks blocks_ ABSL_GUARDED_BY(mutex_);  // newest at the back
  Backend* backend_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_SERVE_STATE_POOL_H_
