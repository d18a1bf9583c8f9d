// The way between the host's memory and a device's: through pinned memory of
// our own, since copies of pageable memory would wait for the device.
#ifndef RECURVE_KERNELS_CUDA_STAGING_H_
#define RECURVE_KERNELS_CUDA_STAGING_H_

#include <array>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/portable.h"

namespace recurve::cuda {

// A piece of pinned memory and when the stream is done with it.
class PinnedSlot {
 public:
  static constexpr int64_t kBytes = int64_t{2} << 20;

  PinnedSlot() = default;
  PinnedSlot(const PinnedSlot&) = delete;
  ~PinnedSlot();
  absl::Status Create();

  char* data() const { return data_; }
  // Everything given to `stream` up to now has to be done before the memory is
  // used again.
  absl::Status MarkUsed(cudaStream_t stream);
  absl::Status Wait();

 private:
  char* data_ = nullptr;
  cudaEvent_t event_ = nullptr;
  bool in_use_ = false;
};

// Copies in the order of one stream. Used by one thread, with the stream's
// device current; goes before the stream does.
class Staging {
 public:
  static absl::StatusOr<std::unique_ptr<Staging>> Create(cudaStream_t stream);
  ~Staging();

  // `host` may be reused as soon as it returns; waits only while the ring is
  // full of copies that the device has not done yet.
  absl::Status Upload(void* device, const void* host, int64_t bytes);
  // Returns with `host` filled, after all that the stream was given before.
  absl::Status Download(void* host, const void* device, int64_t bytes);

 private:
  explicit Staging(cudaStream_t stream) : stream_(stream) {}
  absl::Status NextSlot();

  const cudaStream_t stream_;
  // Uploads fill one slot after another; small ones share one.
  std::array<PinnedSlot, 4> uploads_;
  size_t slot_ = 0;
  int64_t filled_ = 0;  // bytes of uploads_[slot_]
  // One is copied out while the other fills.
  std::array<PinnedSlot, 2> downloads_;
};

}  // namespace recurve::cuda

#endif  // RECURVE_KERNELS_CUDA_STAGING_H_
