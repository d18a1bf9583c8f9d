#include "kernels/cuda/staging.h"

#include <algorithm>
#include <cstring>

#include "kernels/backend.h"
#include "kernels/cuda/status.h"
#include "kernels/status.h"

namespace recurve::cuda {
namespace {

int64_t RoundUp(int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

PinnedSlot::~PinnedSlot() {
  if (event_ != nullptr) cudaEventDestroy(event_);
  if (data_ != nullptr) cudaFreeHost(data_);
}

absl::Status PinnedSlot::Create() {
  RETURN_IF_ERROR(ToStatus(cudaMallocHost(&data_, kBytes), "cudaMallocHost"));
  return ToStatus(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming),
                  "cudaEventCreateWithFlags");
}

absl::Status PinnedSlot::MarkUsed(cudaStream_t stream) {
  in_use_ = true;
  return ToStatus(cudaEventRecord(event_, stream), "cudaEventRecord");
}

absl::Status PinnedSlot::Wait() {
  if (!in_use_) return absl::OkStatus();
  RETURN_IF_ERROR(
      ToStatus(cudaEventSynchronize(event_), "cudaEventSynchronize"));
  in_use_ = false;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Staging>> Staging::Create(cudaStream_t stream) {
  std::unique_ptr<Staging> staging(new Staging(stream));
  for (PinnedSlot& slot : staging->uploads_) RETURN_IF_ERROR(slot.Create());
  for (PinnedSlot& slot : staging->downloads_) RETURN_IF_ERROR(slot.Create());
  return staging;
}

// Pinned memory must not go while a copy reads it.
Staging::~Staging() { cudaStreamSynchronize(stream_); }

absl::Status Staging::NextSlot() {
  RETURN_IF_ERROR(uploads_[slot_].MarkUsed(stream_));
  slot_ = (slot_ + 1) % uploads_.size();
  filled_ = 0;
  return uploads_[slot_].Wait();
}

absl::Status Staging::Upload(void* device, const void* host, int64_t bytes) {
  for (int64_t begin = 0; begin < bytes;) {
    if (filled_ == PinnedSlot::kBytes) RETURN_IF_ERROR(NextSlot());
    const int64_t count = std::min(bytes - begin, PinnedSlot::kBytes - filled_);
    char* pinned = uploads_[slot_].data() + filled_;
    std::memcpy(pinned, static_cast<const char*>(host) + begin, count);
    RETURN_IF_ERROR(
        ToStatus(cudaMemcpyAsync(static_cast<char*>(device) + begin, pinned,
                                 count, cudaMemcpyHostToDevice, stream_),
                 "cudaMemcpyAsync to the device"));
    filled_ = std::min(PinnedSlot::kBytes, RoundUp(filled_ + count));
    begin += count;
  }
  return absl::OkStatus();
}

absl::Status Staging::Download(void* host, const void* device, int64_t bytes) {
  const int64_t pieces = (bytes + PinnedSlot::kBytes - 1) / PinnedSlot::kBytes;
  const auto size = [&](int64_t piece) {
    return std::min(PinnedSlot::kBytes, bytes - piece * PinnedSlot::kBytes);
  };
  // Piece i starts, then piece i - 1 is copied out.
  for (int64_t i = 0; i <= pieces; ++i) {
    if (i < pieces) {
      PinnedSlot& slot = downloads_[i % 2];
      RETURN_IF_ERROR(ToStatus(
          cudaMemcpyAsync(
              slot.data(),
              static_cast<const char*>(device) + i * PinnedSlot::kBytes,
              size(i), cudaMemcpyDeviceToHost, stream_),
          "cudaMemcpyAsync to the host"));
      RETURN_IF_ERROR(slot.MarkUsed(stream_));
    }
    if (i == 0) continue;
    PinnedSlot& done = downloads_[(i - 1) % 2];
    RETURN_IF_ERROR(done.Wait());
    std::memcpy(static_cast<char*>(host) + (i - 1) * PinnedSlot::kBytes,
                done.data(), size(i - 1));
  }
  return absl::OkStatus();
}

}  // namespace recurve::cuda
