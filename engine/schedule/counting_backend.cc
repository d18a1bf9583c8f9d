#include "engine/schedule/counting_backend.h"

#include <utility>

#include "kernels/status.h"

namespace recurve {
namespace {

using Count = std::shared_ptr<std::atomic<int64_t>>;

class CountedBuffer : public DeviceBuffer {
 public:
  CountedBuffer(std::unique_ptr<DeviceBuffer> buffer, Count count)
      : buffer_(std::move(buffer)), count_(std::move(count)) {
    count_->fetch_add(buffer_->bytes(), std::memory_order_relaxed);
  }
  ~CountedBuffer() override {
    count_->fetch_sub(buffer_->bytes(), std::memory_order_relaxed);
  }

  void* data() const override { return buffer_->data(); }
  int64_t bytes() const override { return buffer_->bytes(); }

 private:
  const std::unique_ptr<DeviceBuffer> buffer_;
  const Count count_;
};

}  // namespace

CountingBackend::CountingBackend(std::unique_ptr<Backend> to,
                                 Count allocated_bytes)
    : ForwardingBackend(std::move(to)),
      allocated_bytes_(std::move(allocated_bytes)) {}

absl::StatusOr<std::unique_ptr<DeviceBuffer>> CountingBackend::Allocate(
    int64_t bytes) {
  ASSIGN_OR_RETURN(auto buffer, ForwardingBackend::Allocate(bytes));
  return std::make_unique<CountedBuffer>(std::move(buffer), allocated_bytes_);
}

}  // namespace recurve
