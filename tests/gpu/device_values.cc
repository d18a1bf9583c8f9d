#include "tests/gpu/device_values.h"

#include <algorithm>
#include <bit>
#include <random>

#include "absl/status/statusor.h"
#include "kernels/storage.h"

namespace recurve::gpu {
namespace {

// Numbers that are drawn; longer matrices repeat them.
constexpr int64_t kPeriod = 1 << 20;

template <typename S>
S Stored(float value);
template <>
float Stored(float value) {
  return value;
}
template <>
BFloat16 Stored(float value) {  // cut off, not rounded: any value will do
  return {static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16)};
}

}  // namespace

template <typename S>
Matrix<S> DeviceValues::Random(int64_t rows, int64_t cols, float scale) {
  const Matrix<S> matrix = Output<S>(rows, cols);
  std::mt19937 random(static_cast<uint32_t>(buffers_.size()));
  std::uniform_real_distribution<float> uniform(-scale, scale);
  const int64_t count = rows * cols;
  std::vector<S> host(std::min(count, kPeriod));
  for (S& value : host) value = Stored<S>(uniform(random));
  for (int64_t begin = 0; begin < count; begin += kPeriod) {
    Upload(matrix.data + begin, host.data(),
           std::min(kPeriod, count - begin) * int64_t{sizeof(S)});
  }
  return matrix;
}

template Matrix<float> DeviceValues::Random(int64_t, int64_t, float);
template Matrix<BFloat16> DeviceValues::Random(int64_t, int64_t, float);

SequenceLayout DeviceValues::EqualLengths(int64_t num_sequences,
                                          int64_t length) {
  std::vector<int64_t> cu_seqlens(num_sequences + 1);
  for (int64_t b = 0; b <= num_sequences; ++b) cu_seqlens[b] = b * length;
  const int64_t bytes = (num_sequences + 1) * int64_t{sizeof(int64_t)};
  auto* device = static_cast<int64_t*>(Allocate(bytes));
  Upload(device, cu_seqlens.data(), bytes);
  return {num_sequences, num_sequences * length, device};
}

void* DeviceValues::Allocate(int64_t bytes) {
  if (!status_.ok()) return nullptr;
  absl::StatusOr<std::unique_ptr<DeviceBuffer>> buffer =
      backend_.Allocate(bytes);
  status_ = buffer.status();
  if (!status_.ok()) return nullptr;
  buffers_.push_back(*std::move(buffer));
  return buffers_.back()->data();
}

void DeviceValues::Upload(void* device, const void* host, int64_t bytes) {
  if (status_.ok()) status_ = backend_.Upload(device, host, bytes);
}

}  // namespace recurve::gpu
