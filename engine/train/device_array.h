// Floats on a device, as many as have been needed so far.
#ifndef RECURVE_ENGINE_TRAIN_DEVICE_ARRAY_H_
#define RECURVE_ENGINE_TRAIN_DEVICE_ARRAY_H_

#include <algorithm>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "kernels/backend.h"
#include "kernels/status.h"

namespace recurve {

class DeviceArray {
 public:
  float* data() const {
    return buffer_ == nullptr ? nullptr : static_cast<float*>(buffer_->data());
  }

  // Makes room for `count` floats; what was there is lost if there was not.
  absl::Status Reserve(Backend& backend, int64_t count) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(float));
    if (buffer_ != nullptr && buffer_->bytes() >= bytes) {
      return absl::OkStatus();
    }
    buffer_.reset();  // never both at once
    ASSIGN_OR_RETURN(buffer_, backend.Allocate(std::max(bytes, kAlignment)));
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<DeviceBuffer> buffer_;
};

}  // namespace recurve

#endif  // RECURVE_ENGINE_TRAIN_DEVICE_ARRAY_H_
