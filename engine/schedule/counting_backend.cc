#include "engine/schedule/counting_backend.h"

#include <utility>

#include "absl/strings/str_cat.h"
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
                                 Count allocated_bytes, int64_t budget_bytes)
    : ForwardingBackend(std::move(to)),
      allocated_bytes_(std::move(allocated_bytes)),
      budget_bytes_(budget_bytes) {}

absl::StatusOr<std::unique_ptr<DeviceBuffer>> CountingBackend::Allocate(
    int64_t bytes) {
  // The device's thread alone allocates: nobody is between look and add.
  const int64_t allocated = allocated_bytes_->load(std::memory_order_relaxed);
  if (budget_bytes_ > 0 && bytes > budget_bytes_ - allocated) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the device's memory budget is ", budget_bytes_, " bytes, ", allocated,
        " of them are in use, ", bytes, " more are needed"));
  }
  ASSIGN_OR_RETURN(auto buffer, ForwardingBackend::Allocate(bytes));
  return std::make_unique<CountedBuffer>(std::move(buffer), allocated_bytes_);
}

}  // namespace recurve
