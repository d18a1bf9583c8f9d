#include "kernels/cuda/conformance_side.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/status/status.h"

namespace recurve::cuda {
namespace {

constexpr float kUnwritten = 12345.0f;

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::abort();
}

}  // namespace

void* Side::UploadBytes(const void* data, int64_t bytes) {
  auto buffer = backend_.Allocate(bytes);
  Check(buffer.status());
  buffers_.push_back(*std::move(buffer));
  void* device = buffers_.back()->data();
  Check(backend_.Upload(device, data, bytes));
  return device;
}

template <typename F>
Matrix<float> Side::Fill(int64_t rows, int64_t cols, const F& next) {
  // Rows side by side, on 16-byte boundaries, or on none.
  const int64_t paddings[] = {0, 0, (4 - cols % 4) % 4 + 4, 3};
  const int64_t stride = cols + paddings[Draw(4)];
  std::vector<float> values(rows * stride, kUnwritten);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < cols; ++j) values[r * stride + j] = next();
  }
  return {Upload(values), rows, cols, stride};
}

Matrix<float> Side::Input(int64_t rows, int64_t cols, float scale) {
  return Fill(rows, cols, [&] {
    return (static_cast<float>(Draw(20001)) * 1e-4f - 1.0f) * scale;
  });
}

Matrix<float> Side::Mask(int64_t rows, int64_t cols, float value) {
  return Fill(rows, cols, [&] { return Draw(4) == 0 ? 0.0f : value; });
}

float* Side::Vector(int64_t count, float scale) {
  return Input(1, count, scale).data;
}

std::vector<int32_t> Side::Draws(int64_t count, int64_t below) {
  std::vector<int32_t> values(count);
  for (int32_t& value : values) value = static_cast<int32_t>(Draw(below));
  return values;
}

Matrix<float> Side::Scratch(int64_t rows, int64_t cols) {
  return Fill(rows, cols, [] { return kUnwritten; });
}

Matrix<float> Side::Output(const std::string& name, int64_t rows,
                           int64_t cols) {
  const Matrix<float> m = Scratch(rows, cols);
  pending_.push_back({name, m.data, m.rows, m.cols, m.stride});
  return m;
}

float* Side::OutputVector(const std::string& name, int64_t count) {
  return Output(name, 1, count).data;
}

Matrix<float> Side::Changed(const std::string& name, int64_t rows, int64_t cols,
                            float scale) {
  const Matrix<float> m = Input(rows, cols, scale);
  pending_.push_back({name, m.data, m.rows, m.cols, m.stride});
  return m;
}

SequenceLayout Side::Layout(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> offsets = {0};
  for (int64_t length : lengths) offsets.push_back(offsets.back() + length);
  SequenceLayout layout;
  layout.num_sequences = static_cast<int64_t>(lengths.size());
  layout.num_rows = offsets.back();
  layout.cu_seqlens = Upload(offsets);
  return layout;
}

std::vector<Result> Side::Results() {
  std::vector<Result> results;
  for (const Pending& p : pending_) {
    Result result{p.name, p.cols, p.stride, {}};
    result.values.resize(p.rows * p.stride);
    Check(backend_.Download(result.values.data(), p.data,
                            p.rows * p.stride * sizeof(float)));
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace recurve::cuda
