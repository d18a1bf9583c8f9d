#include "engine/model/parameters.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace recurve {

int64_t ParameterLayout::Add(std::string name, int64_t rows, int64_t cols,
                             bool trainable) {
  const int64_t count = rows * cols;
  parameters_.push_back({std::move(name), rows, cols, buffer_size_, trainable});
  buffer_size_ += (count + kParameterAlignment - 1) / kParameterAlignment *
                  kParameterAlignment;
  return static_cast<int64_t>(parameters_.size()) - 1;
}

const Parameter* ParameterLayout::Find(absl::string_view name) const {
  for (const Parameter& parameter : parameters_) {
    if (parameter.name == name) return &parameter;
  }
  return nullptr;
}

int64_t ParameterLayout::parameter_count() const {
  int64_t count = 0;
  for (const Parameter& parameter : parameters_) count += parameter.count();
  return count;
}

std::string LayerParameterName(int64_t block, int64_t layer,
                               absl::string_view field) {
  return absl::StrCat("blocks.", block, ".layers.", layer, ".", field);
}

}  // namespace recurve
