#include "tests/memory/sentinel_backend.h"

#include <cstring>
#include <utility>

#include "kernels/status.h"

namespace recurve {

class SentinelBuffer : public DeviceBuffer {
 public:
  SentinelBuffer(std::unique_ptr<DeviceBuffer> buffer,
                 std::shared_ptr<LiveBuffers> live)
      : buffer_(std::move(buffer)), live_(std::move(live)) {
    absl::MutexLock lock(&live_->mutex_);
    number_ = live_->next_++;
    live_->buffers_[number_] = buffer_.get();
  }
  ~SentinelBuffer() override {
    absl::MutexLock lock(&live_->mutex_);
    live_->buffers_.erase(number_);
  }

  void* data() const override { return buffer_->data(); }
  int64_t bytes() const override { return buffer_->bytes(); }

 private:
  const std::unique_ptr<DeviceBuffer> buffer_;
  const std::shared_ptr<LiveBuffers> live_;
  int64_t number_;
};

std::vector<uint8_t> LiveBuffers::Contents() const {
  absl::MutexLock lock(&mutex_);
  std::vector<uint8_t> contents;
  for (const auto& [number, buffer] : buffers_) {
    const auto* data = static_cast<const uint8_t*>(buffer->data());
    contents.insert(contents.end(), data, data + buffer->bytes());
  }
  return contents;
}

int64_t LiveBuffers::bytes() const {
  absl::MutexLock lock(&mutex_);
  int64_t bytes = 0;
  for (const auto& [number, buffer] : buffers_) bytes += buffer->bytes();
  return bytes;
}

SentinelBackend::SentinelBackend(std::unique_ptr<Backend> to, uint8_t sentinel,
                                 std::shared_ptr<LiveBuffers> live)
    : ForwardingBackend(std::move(to)),
      sentinel_(sentinel),
      live_(std::move(live)) {}

absl::StatusOr<std::unique_ptr<DeviceBuffer>> SentinelBackend::Allocate(
    int64_t bytes) {
  ASSIGN_OR_RETURN(auto buffer, ForwardingBackend::Allocate(bytes));
  std::memset(buffer->data(), sentinel_, buffer->bytes());
  return std::make_unique<SentinelBuffer>(std::move(buffer), live_);
}

int64_t TouchedBytes(const std::vector<uint8_t>& first, uint8_t first_sentinel,
                     const std::vector<uint8_t>& second,
                     uint8_t second_sentinel) {
  if (first.size() != second.size()) return -1;
  int64_t touched = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    touched += first[i] != first_sentinel || second[i] != second_sentinel;
  }
  return touched;
}

}  // namespace recurve
